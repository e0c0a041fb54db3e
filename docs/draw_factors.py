"""Draws docs/images/factors.svg: the factors of a small attention, η, and the matrix that is never formed.

python docs/draw_factors.py
"""

from pathlib import Path

import torch
from torch import Tensor

import lrga

OUT = Path(__file__).parent / "images" / "factors.svg"
CELL, NODES, RANK = 16, 10, 3
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 330" font-family="Helvetica, Arial, sans-serif" \
font-size="14" role="img" aria-labelledby="t d">
  <title id="t">The factors of low-rank global attention and η</title>
  <desc id="d">A tall factor U with n rows and κ columns times a wide factor V transposed, divided by η, is the n by n \
attention matrix. η is chosen so that the row sums of the matrix are 1 on average. Below: the matrix is never formed, \
because V transposed times Z is a κ by κ matrix.</desc>
  <rect width="860" height="330" fill="#ffffff"/>"""


def squares(values: Tensor, left: float, top: float, colour: str) -> list[str]:
    """A matrix as squares; the darkest is its greatest value."""
    shares = (values / values.max()).tolist()
    return [
        f'  <rect x="{left + CELL * j:g}" y="{top + CELL * i:g}" width="{CELL}" height="{CELL}" fill="{colour}" '
        f'fill-opacity="{share:.2f}" stroke="#99a" stroke-width="0.6"/>'
        for i, row in enumerate(shares)
        for j, share in enumerate(row)
    ]


def text(left: float, top: float, words: str, size: int = 14, colour: str = "#123") -> str:
    return f'  <text x="{left:g}" y="{top:g}" font-size="{size}" fill="{colour}" text-anchor="middle">{words}</text>'


def main() -> None:
    torch.manual_seed(5)
    attention = lrga.LowRankGlobalAttention(4, RANK)
    with torch.no_grad():
        u, v = (factor.flatten(1) for factor in attention.factors(torch.randn(NODES, 4)))  # η included
    matrix = u @ v.t()
    sums = matrix.sum(dim=1, keepdim=True)
    top, side = 60.0, CELL * NODES
    parts = [HEAD]
    parts += squares(u, 40, top, "#2f7d54")
    parts += squares(v.t(), 150, top + (side - CELL * RANK) / 2, "#c2741a")
    parts += squares(matrix, 400, top, "#2456a6")
    parts += squares(sums, 610, top, "#667")
    middle = top + side / 2 + 5
    parts += [
        text(40 + CELL * RANK / 2, 44, "U = m₁(X)"),
        text(40 + CELL * RANK / 2, top + side + 18, "n × κ", 13, "#556"),
        text(118, middle, "·", 22),
        text(150 + side / 2, 44, "Vᵀ = m₂(X)ᵀ"),
        text(150 + side / 2, top + side + 18, "κ × n", 13, "#556"),
        text(354, middle, "/ η  =", 18),
        text(400 + side / 2, 44, "attention matrix"),
        text(400 + side / 2, top + side + 18, "n × n, rank κ, never formed", 13, "#556"),
        text(610 + CELL / 2, 44, "row sums"),
        text(745, top + 30, "η = (1ᵀU)(Vᵀ1) / n", 16),
        text(745, top + 58, "makes their mean 1:", 13, "#556"),
        text(745, top + 84, f"{sums.min():.2f} … {sums.max():.2f}, mean {sums.mean():.2f}", 14),
        text(430, 282, "U (Vᵀ Z) / η", 18),
        text(430, 308, "computed from the right: Vᵀ Z is only κ × κ, so time and memory are linear in n", 13, "#556"),
        "</svg>",
    ]
    OUT.write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

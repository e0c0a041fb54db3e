"""A PyG user goes from the README to an augmented model, to a result with and without LRGA, and to its explanation.

Each walkthrough executes the text of the README and of pages of the documentation, in one folder and one namespace.
Data sets that the pages download are replaced by small graphs of the same form.
"""

import pytest
import torch
import torch_geometric.datasets
from torch import nn
from torch_geometric.data import Data

from tests.helpers.documents import ROOT, Shell, run_page

# The pages that a reader follows after the README, in their order; test_documents.py has all others.
WALKTHROUGHS = {
    "a model of your own on a citation graph": (
        "tutorials/own-model",
        "tutorials/node-classification",
        "how-to/explaining",
    ),
    "molecules with edge features": ("tutorials/molecules",),
    "links of an edge list": ("tutorials/link-prediction",),
}


class Citations:
    """Takes the place of ``Planetoid``: three communities of papers, whose words tell little."""

    num_features, num_classes = 12, 3

    def __init__(self, root, name):
        generator = torch.Generator().manual_seed(0)
        y = torch.arange(90) % 3
        linked = torch.rand(90, 90, generator=generator) < torch.where(y.unsqueeze(1) == y, 0.1, 0.01)
        x = (torch.rand(90, 12, generator=generator) < 0.2).float() + nn.functional.one_hot(y, 12) * 0.5
        self.data = Data(x=x, edge_index=(linked | linked.t()).nonzero().t().contiguous(), y=y)
        order = torch.randperm(90, generator=generator)
        for mask, nodes in zip(("train_mask", "val_mask", "test_mask"), order.split(30), strict=True):
            self.data[mask] = torch.zeros(90, dtype=torch.bool).index_fill(0, nodes, True)

    def __getitem__(self, index):
        return self.data


class Molecules(torch.utils.data.Dataset):
    """Takes the place of ``ZINC``: rings of a few atoms; the target counts atoms and bonds of one type."""

    def __init__(self, root, *, subset, split):
        seeds = {"train": range(48), "val": range(48, 60), "test": range(60, 72)}[split]
        self.molecules = [self.molecule(seed) for seed in seeds]

    @staticmethod
    def molecule(seed):
        generator = torch.Generator().manual_seed(seed)
        count = int(torch.randint(4, 9, (), generator=generator))
        atoms = torch.randint(28, (count, 1), generator=generator)
        bonds = torch.randint(1, 4, (count,), generator=generator)
        ring = torch.stack([torch.arange(count), (torch.arange(count) + 1) % count])
        target = ((atoms < 9).sum() + (bonds == 2).sum()).float()
        return Data(x=atoms, edge_index=torch.cat([ring, ring.flip(0)], 1), edge_attr=bonds.repeat(2), y=target.view(1))

    def __len__(self):
        return len(self.molecules)

    def __getitem__(self, index):
        if index >= len(self):
            raise IndexError(index)
        return self.molecules[index]


@pytest.fixture
def follow(tmp_path, monkeypatch):
    """``follow(walkthrough)``: the namespace after the README's Python and the pages; files are in the folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LRGA_DATA", str(tmp_path / "data-root"))
    monkeypatch.setattr(torch_geometric.datasets, "Planetoid", Citations)
    monkeypatch.setattr(torch_geometric.datasets, "ZINC", Molecules)
    torch.manual_seed(0)

    def run(walkthrough):
        names = {"__name__": "page"}
        run_page(ROOT / "README.md", Shell(tmp_path), names, languages=("python",))
        for name in WALKTHROUGHS[walkthrough]:
            run_page(ROOT / "docs" / f"{name}.md", Shell(tmp_path), names)
        return names

    return run


def test_a_model_of_ones_own_on_a_citation_graph(follow, tmp_path):
    names = follow("a model of your own on a citation graph")
    assert set(names["accuracy"]) == {"GCN", "LRGA + GCN"}
    assert all(value > 0.5 for value in names["accuracy"].values())  # of three classes
    assert len(list((tmp_path / "runs").glob("graph-*-seed*"))) == 4  # with and without, two seeds
    assert "convs.0.attention" in (tmp_path / "attention.html").read_text()


def test_molecules_with_edge_features(follow, tmp_path):
    names = follow("molecules with edge features")
    assert set(names["error"]) == {"GINE", "LRGA + GINE"}
    assert all(0 < value < 20 for value in names["error"].values())
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) > 12
    assert "convs.3.attention" in (tmp_path / "attention.html").read_text()
    assert names["found"].layers[-1].row(0).shape == (names["molecule"].num_nodes,)


def test_links_of_an_edge_list(follow, tmp_path, capsys):
    names = follow("links of an edge list")
    assert all(value > 0.6 for value in names["auc"].values())
    assert len(list((tmp_path / "runs").glob("edges-*-seed*"))) == 5  # one, then with and without for two seeds
    assert "person1" in (tmp_path / "attention.html").read_text()
    assert "convs.0.attention" in (tmp_path / "encoder.html").read_text()

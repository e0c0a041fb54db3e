"""Explains the attention of a trained run, or of your own model, as data and as a page.

import lrga
lrga.explain.write_explorer("runs/cluster-lrga-gcn-100k-seed41", "attention.html", graph=3)
"""

from lrga.explain.attention import Explanation, explain
from lrga.explain.explorer import write_explorer
from lrga.explain.own_model import explain_model
from lrga.explain.pyg import GlobalAttentionExplainer

__all__ = ["Explanation", "GlobalAttentionExplainer", "explain", "explain_model", "write_explorer"]

import pytest
import torch

from lrga.distributed.graph import part_of
from lrga.errors import DTypeError


@pytest.mark.parametrize("conv", ["gcn", "gat", "gatedgcn", "graphsage", "gin"])
def test_every_task_preset_and_odd_graph_gives_the_loss_and_gradients_of_one_process(ranks, conv):
    """Edge and graph tasks, the preset 2020, METIS, more ranks than nodes, no edges."""
    for rank, report in enumerate(ranks):
        found = {case: values for case, values in report["variants"].items() if case.split()[0] == conv}
        assert len(found) >= (7 if rank < 3 else 1)
        for case, values in found.items():
            bound = 1e-5 if "float32" in case else 1e-8
            assert values["loss"] < bound, (rank, case)
            assert values["gradient"] < bound, (rank, case)


def test_edges_of_a_whole_graph_are_refused():
    with pytest.raises(DTypeError, match=r"part\.edges"):
        part_of(torch.zeros(2, 0, dtype=torch.int64))

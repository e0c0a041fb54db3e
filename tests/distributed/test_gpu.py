from pathlib import Path

import pytest
import torch

import lrga
from lrga.distributed import RankBatchNorm, partition_graph, partition_model, training_step
from lrga.nn.norm import BatchNorm
from tests.helpers.processes import run

pytestmark = pytest.mark.gpu


def test_two_ranks_on_a_gpu_take_the_first_step_of_one_process_to_rounding(tmp_path):
    for report in run(Path(__file__).with_name("ranks_gpu.py"), 2, tmp_path):
        assert len(report) == 10
        for case, found in report.items():
            assert found["loss"] < 1e-5, case
            assert found["gradient"] < 2e-3, case


def test_one_part_on_a_gpu_is_the_whole_graph():
    edge_index = torch.randint(50, (2, 200), generator=torch.Generator().manual_seed(0))
    part = partition_graph(edge_index, 50, device="cuda")
    whole = lrga.GNN(6, 16, 2, 2, conv="gatedgcn", rank=4).cuda()
    ours = partition_model(whole, part)
    x = torch.randn(50, 6, device="cuda")
    edge_attr = torch.ones(200, 1, device="cuda")
    out = ours(x, part.edges, part.take_edges(edge_attr))
    assert torch.allclose(out, whole(x, edge_index.cuda(), edge_attr), atol=1e-4)
    y = torch.zeros(50, dtype=torch.int64, device="cuda")
    assert training_step(ours, part, x, y, torch.optim.Adam(ours.parameters())) > 0


def test_statistics_on_a_gpu_are_those_of_torch():
    torch.manual_seed(0)
    whole, x = BatchNorm(7).cuda(), torch.randn(1000, 7, device="cuda") * 3 + 5
    ours = RankBatchNorm.of(BatchNorm(7).cuda())
    assert torch.allclose(ours(x), whole(x), atol=1e-4)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(ours.buffers(), whole.buffers(), strict=True))

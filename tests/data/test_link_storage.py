import pytest
import torch
from safetensors.torch import save_file

from lrga.data.links.data import LinkData, LinkSplit
from lrga.data.links.storage import load_link_data, save_link_data
from lrga.errors import ChecksumError, DataError, DataMissingError


def data_of(*, shared):
    edge = torch.tensor([[0, 1], [1, 2], [3, 4]])
    train = LinkSplit(edge if shared else edge[:2].clone(), time=None if shared else torch.tensor([2**40, 5]))
    other = LinkSplit(torch.tensor([[0, 4]]), torch.tensor([[2, 4]]), weight=torch.tensor([2.0]))
    return LinkData(
        num_nodes=5, edge=edge, splits={"train": train, "val": other, "test": other}, undirected=False,
        x=torch.randn(5, 2), edge_weight=torch.rand(3), metric="mrr", node_ids=("a", "b", "c", "d", "é"),
        meta={"said": ["x"]},
    )  # fmt: skip


@pytest.mark.parametrize("shared", [True, False])
def test_what_is_written_is_read(tmp_path, shared):
    data = data_of(shared=shared)
    save_link_data(data, tmp_path / "graph.safetensors")
    read = load_link_data(tmp_path / "graph.safetensors")
    assert read.fingerprint() == data.fingerprint()
    assert (read.metric, read.node_ids, read.meta, read.undirected) == ("mrr", data.node_ids, data.meta, False)
    assert (read.splits["train"].edge is read.edge) == shared


def test_damaged_foreign_and_missing_files_are_refused(tmp_path):
    path = tmp_path / "graph.safetensors"
    with pytest.raises(DataMissingError):
        load_link_data(path)
    save_file({"edge": torch.zeros(2, 2)}, path)
    with pytest.raises(DataError, match="link prediction"):
        load_link_data(path)
    save_link_data(data_of(shared=True), path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ChecksumError, match="whole"):
        load_link_data(path)

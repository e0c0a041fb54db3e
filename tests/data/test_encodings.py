"""Encodings of packed sets: in plain and padded batches, and kept below the data root."""

import pytest
import torch
from torch_geometric.data import Data

from lrga.data import AddEncodings, PackedGraphs, with_encodings
from lrga.data import encodings as module
from lrga.data.packed.padded import Capacity
from lrga.data.packed.sampler import NeighborSampler


def graphs(*sizes):
    generator = torch.Generator().manual_seed(0)
    return [Data(edge_index=torch.randint(0, n, (2, 3 * n), generator=generator), num_nodes=n) for n in sizes]


@pytest.fixture
def packed():
    return PackedGraphs.from_data_list(graphs(4, 7, 5))


def test_batches_plain_padded_and_sampled_carry_the_encodings_of_their_graphs(packed):
    encoded = with_encodings(packed, ["rrwp:4", "lappe:2"])
    wanted = [AddEncodings(["rrwp:4", "lappe:2"])(graph) for graph in graphs(4, 7, 5)]
    plain = encoded.batch([2, 0])
    assert torch.equal(plain.node_encoding, torch.cat([wanted[2].node_encoding, wanted[0].node_encoding]))
    original = torch.cat([wanted[2].edge_encoding, wanted[0].edge_encoding])
    assert torch.equal(plain.in_original_order(plain.edge_encoding), original)
    padded = encoded.padded.gather(torch.tensor([2, 0]), Capacity(32, 64))
    assert torch.equal(padded.node_encoding[:9], plain.node_encoding)
    assert torch.equal(padded.edge_encoding[:27], plain.edge_encoding)
    assert bool(padded.node_encoding.isfinite().all())
    one = with_encodings(PackedGraphs.from_data_list(graphs(6)), "rwse:3")
    sample = NeighborSampler(one, [-1]).sample(torch.tensor([4, 1]))
    assert torch.equal(sample.node_encoding, one.columns["node_encoding"].values[sample.attribute("n_id")])
    assert packed.batch([0]).node_encoding is None


def test_encodings_are_computed_once_and_kept_by_kind_size_and_edges(packed, tmp_path, monkeypatch):
    first = with_encodings(packed, ["rrwp:4", "lappe:2"], folder=tmp_path / "encodings")
    files = sorted(path.name for path in (tmp_path / "encodings").iterdir())
    assert [name.split("-", 1)[1] for name in files] == ["lappe-2.safetensors", "rrwp-4.safetensors"]

    def refuse(*_):
        raise AssertionError("computed again")

    with monkeypatch.context() as patch:
        patch.setattr(module, "encode", refuse)
        again = with_encodings(packed.subset(slice(None)), ["rrwp:4", "lappe:2"], folder=tmp_path / "encodings")
        for name in ("node_encoding", "edge_encoding"):
            assert torch.equal(again.columns[name].values, first.columns[name].values)
        for other in (["rrwp:5"], ["rwse:4"]):
            with pytest.raises(AssertionError, match="computed again"):
                with_encodings(packed, other, folder=tmp_path / "encodings")
        with pytest.raises(AssertionError, match="computed again"):  # other edges
            with_encodings(packed.subset([1, 0, 2]), ["rrwp:4"], folder=tmp_path / "encodings")
    for name in files:  # damaged files are not believed
        content = bytearray((tmp_path / "encodings" / name).read_bytes())
        (tmp_path / "encodings" / name).write_bytes(content[:-1])
    healed = with_encodings(packed.subset(slice(None)), ["rrwp:4", "lappe:2"], folder=tmp_path / "encodings")
    assert torch.equal(healed.columns["node_encoding"].values, first.columns["node_encoding"].values)


def test_splits_of_one_graph_share_its_encodings(packed, tmp_path):
    mask = module.Column("node", torch.zeros(packed.num_nodes, dtype=torch.bool), torch.bool)
    splits = {name: packed.with_column("mask", mask) for name in ("train", "val", "test")}
    found = {name: with_encodings(own, ["rwse:3"], folder=tmp_path) for name, own in splits.items()}
    assert found["train"].columns["node_encoding"] is found["test"].columns["node_encoding"]


def test_a_folder_that_cannot_be_written_to_is_no_error(packed, tmp_path):
    (tmp_path / "encodings").write_text("a file where the folder should be")
    assert "node_encoding" in with_encodings(packed, ["rwse:3"], folder=tmp_path / "encodings").columns

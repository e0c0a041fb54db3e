import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch_geometric.data import Data

from lrga.data import PackedGraphs
from lrga.data.packed.graphs import HEADER
from lrga.errors import ChecksumError, DataError, DataMissingError


def graphs():
    generator = torch.Generator().manual_seed(0)
    return [
        Data(
            x=torch.randint(0, 9, (n, 1), generator=generator),
            edge_index=torch.randint(0, max(n, 1), (2, e), generator=generator),
            edge_attr=torch.rand(e, generator=generator).bfloat16(),
            y=torch.rand(1, generator=generator),
            name=f"graph {n}",
            charge=n,
        )
        for n, e in ((5, 9), (1, 0), (0, 0), (7, 20))
    ]


def packed():
    result = PackedGraphs.from_data_list(graphs())
    result.meta["recipe"] = {"seed": 41}
    return result


def test_a_saved_set_comes_back(tmp_path):
    packed().save(tmp_path / "a.safetensors")
    loaded = PackedGraphs.load(tmp_path / "a.safetensors")
    assert loaded.meta == {"recipe": {"seed": 41}}
    assert loaded.y_level == "graph"
    for ours, theirs in zip(loaded.to_data_list(), graphs(), strict=True):
        assert ours.to_dict().keys() == theirs.to_dict().keys()
        for key, value in theirs.to_dict().items():
            same = torch.equal(ours[key], value) if isinstance(value, torch.Tensor) else ours[key] == value
            assert same, key


def test_empty_selections_and_graphs_without_edges_or_features_come_back(tmp_path):
    packed()[0:0].save(tmp_path / "a.safetensors")
    assert len(PackedGraphs.load(tmp_path / "a.safetensors")) == 0
    PackedGraphs.from_data_list([Data(num_nodes=3), Data(num_nodes=4)]).save(tmp_path / "a.safetensors")
    loaded = PackedGraphs.load(tmp_path / "a.safetensors")
    assert loaded[1].to_dict() == {"num_nodes": 4}


def test_equal_sets_are_equal_bytes(tmp_path):
    packed().save(tmp_path / "a.safetensors")
    packed()[[0, 1, 2, 3]].save(tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_what_json_cannot_hold_is_refused_by_name(tmp_path):
    wrong = PackedGraphs.from_data_list([Data(x=torch.rand(2, 1), extra=value) for value in ([1], (1, 2))])
    with pytest.raises(DataError, match="extra of graph 1, a tuple"):
        wrong.save(tmp_path / "a.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_missing_and_foreign_files_are_named(tmp_path):
    with pytest.raises(DataMissingError, match=r"nothing\.safetensors"):
        PackedGraphs.load(tmp_path / "nothing.safetensors")
    save_file({"weight": torch.rand(3)}, tmp_path / "model.safetensors")
    with pytest.raises(DataError, match=r"model\.safetensors"):
        PackedGraphs.load(tmp_path / "model.safetensors")


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_truncated_file_is_named(tmp_path, keep):
    path = tmp_path / "a.safetensors"
    packed().save(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ChecksumError, match=r"a\.safetensors"):
        PackedGraphs.load(path)


def rewritten(path, change_header=None, change_tensors=None):
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()[HEADER])
    tensors = load_file(path)
    if change_header:
        change_header(header)
    if change_tensors:
        change_tensors(tensors)
    save_file(tensors, path, metadata={HEADER: json.dumps(header)})


def test_another_format_is_named(tmp_path):
    path = tmp_path / "a.safetensors"
    packed().save(path)
    rewritten(path, change_header=lambda header: header.update(format=99))
    with pytest.raises(DataError, match="format 99"):
        PackedGraphs.load(path)


@pytest.mark.parametrize("name", ["source", "column.x", "in_degree"])
def test_a_tensor_that_is_missing_is_named(tmp_path, name):
    path = tmp_path / "a.safetensors"
    packed().save(path)
    rewritten(path, change_tensors=lambda tensors: tensors.pop(name))
    with pytest.raises(DataError, match=name):
        PackedGraphs.load(path)

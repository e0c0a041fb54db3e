"""Graphs without any edge are trained on, predicted and explained; attributes that are no numbers are refused."""

import pytest
import torch
from torch_geometric.data import Data

from lrga.errors import DataError, UnsupportedError
from lrga.report.attention import explain
from lrga.training import DataConfig, train
from lrga.training.options import make_config
from lrga.training.predict import Predictor
from lrga.training.problems.graph_data import load_training_data

EMPTY = torch.empty(2, 0, dtype=torch.long)
EDGES = {
    "empty": {"edge_index": EMPTY},
    "none": {"edge_index": None},
    "absent": {},
    "features": {"edge_index": EMPTY, "edge_attr": torch.empty(0, 3)},
}


def write_csv(folder):
    folder.mkdir()
    (folder / "nodes.csv").write_text("graph,node,x\n" + "".join(f"{g},{n},{g / 7}\n" for g in range(30) for n in "ab"))
    (folder / "edges.csv").write_text("graph,source,target\n")
    (folder / "graphs.csv").write_text("graph,y\n" + "".join(f"{g},{g % 2}\n" for g in range(30)))
    return folder


def write_pt(path, **edges):
    torch.save([Data(x=torch.rand(3, 2), y=torch.tensor([i % 2]), **edges) for i in range(30)], path)
    return path


@pytest.mark.parametrize("source", ["csv", *EDGES])
@pytest.mark.parametrize("options", [{"model": "gcn"}, {"model": "gatedgcn"}, {"model": "gin", "lrga": False},
                                     {"model": "gat", "engine": "captured"}])  # fmt: skip
def test_graphs_without_edges_are_trained_on_and_predicted(tmp_path, source, options):
    path = write_csv(tmp_path / "csv") if source == "csv" else write_pt(tmp_path / "graphs.pt", **EDGES[source])
    config = make_config(str(path), hidden=8, layers=2, max_epochs=1, device="cpu", **options)
    assert train(config, tmp_path / "run").finished
    assert "there are no edges" in (tmp_path / "run" / "log.txt").read_text()
    predictor = Predictor.of(tmp_path / "run", device="cpu")
    assert len(list(predictor.rows(predictor.read(path)))) == 30
    if options.get("lrga", True):
        assert explain(tmp_path / "run").edges.shape == (0, 2)


def test_edges_to_predict_must_be_there(tmp_path):
    with pytest.raises(DataError, match="y"):
        load_training_data(DataConfig(name=str(write_csv(tmp_path / "csv")), options={"level": "edge"}))


SPARSE, LINK = torch.eye(2).to_sparse(), torch.tensor([[0, 1], [1, 0]])
ODD = [
    ({"x": SPARSE}, "x", "sparse"),
    ({"x": ["small", "large"]}, "x", "small"),
    ({"edge_attr": SPARSE}, "edge_attr", "sparse"),
    ({"edge_attr": ["road", "rail"]}, "edge_attr", "road"),
    ({"y": "ring"}, "y", "ring"),
    ({"y": ["ring", "path"]}, "y", "ring"),
]


@pytest.mark.parametrize(("change", "name", "got"), ODD)
@pytest.mark.parametrize("way", ["file", "list"])
def test_sparse_and_text_attributes_are_refused_in_words(tmp_path, change, name, got, way):
    graphs = [Data(**({"x": torch.rand(2, 2), "edge_index": LINK, "y": torch.tensor([1])} | change)) for _ in range(6)]
    torch.save(graphs, tmp_path / "g.pt")
    source, given = str(tmp_path / "g.pt"), None
    if way == "list":
        source, given = "own", dict.fromkeys(("train", "val", "test"), graphs)
    with pytest.raises(DataError, match=rf"\b{name}\b.*{got}"):
        load_training_data(DataConfig(name=source), given=given)


def test_edges_that_are_no_index_are_refused(tmp_path):
    x, y = torch.rand(2, 2), torch.tensor([1])
    torch.save([Data(x=x, y=y, edge_index=LINK.to_sparse())] * 6, tmp_path / "sparse.pt")
    with pytest.raises(DataError, match="dense edge_index"):
        load_training_data(DataConfig(name=str(tmp_path / "sparse.pt")))
    torch.save([Data(x=x, y=y, adj_t=SPARSE)] * 6, tmp_path / "matrix.pt")
    with pytest.raises(UnsupportedError, match="adjacency matrix"):
        load_training_data(DataConfig(name=str(tmp_path / "matrix.pt")))

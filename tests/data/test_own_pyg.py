import io
import pickle
import random
import sys
import textwrap

import numpy as np
import pytest
import torch
from data_files import Hostile
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset

from lrga.data.own.pyg import load_factory, load_file, read_pyg
from lrga.errors import DataError, DataMissingError, DTypeError, LRGAError, OptionError, UnsupportedError

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def graph(n: int = 3, *, y=1, **more) -> Data:
    return Data(x=torch.full((n, 2), float(n)), edge_index=PATH, y=torch.as_tensor(y), **more)


def table(graphs, **options):
    return read_pyg(graphs, "here", **options)


@pytest.mark.parametrize("form", ["list", "tuple", "dataset", "one", "batch"])
def test_the_usual_ways_to_hold_graphs_are_read(form):
    graphs = [graph(3, y=[0]), graph(4, y=[1]), graph(5, y=[1]), graph(6, y=[0])]

    class Held(InMemoryDataset):
        def __init__(self):
            super().__init__()
            self.data, self.slices = self.collate(graphs)

    found = {
        "list": graphs,
        "tuple": tuple(graphs),
        "dataset": Held,
        "one": graphs[0],
        "batch": Batch.from_data_list(graphs),
    }[form]
    made = table(found() if form == "dataset" else found)
    assert made.nodes_per_graph.tolist() == ([3] if form == "one" else [3, 4, 5, 6])
    assert made.x.dtype == torch.float32
    assert made.y.tolist() == ([0] if form == "one" else [0, 1, 1, 0])


def test_a_dict_of_three_gives_the_splits():
    parts = {"train": [graph(3), graph(4)], "val": [graph(5)], "test": [graph(6)]}
    made = table(parts)
    assert made.nodes_per_graph.tolist() == [3, 4, 5, 6]
    assert made.attribute("split").tolist() == [0, 0, 1, 2]
    with pytest.raises(DataError, match="'valid'"):
        table({"train": [graph()], "valid": [graph()], "test": [graph()]})
    with pytest.raises(DataError, match="in every part"):
        table({"train": [graph()], "val": [], "test": [graph()]})


@pytest.mark.parametrize(
    ("y", "level"),
    [(1, "graph"), ([1], "graph"), ([[1.0, 2.0]], "graph"), ([0, 1, 2], "node"), ([0, 1, 1, 0], "edge")],
)
def test_the_level_of_a_target_is_found_from_its_shape(y, level):
    made = table([graph(y=y), graph(y=y)])
    assert made.y_level == level


def test_a_shape_that_fits_two_levels_must_be_told():
    square = Data(x=torch.ones(4, 1), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), y=torch.arange(4))
    with pytest.raises(OptionError, match="node and edge"):
        table([square])
    assert table([square], level="edge").y_level == "edge"
    with pytest.raises(DataError, match="for each graph"):
        table([square], level="graph")


def test_arrays_and_other_precisions_are_read():
    found = table([Data(x=np.full((3, 2), 0.5), edge_index=PATH, y=torch.tensor([1.5], dtype=torch.bfloat16))])
    assert found.x.tolist() == [[0.5, 0.5]] * 3
    assert found.y.tolist() == [1.5]


def test_masks_divide_the_nodes_of_one_graph():
    masks = {
        f"{name}_mask": torch.tensor([i == k for i in range(5)]) for k, name in enumerate(("train", "val", "test"))
    }
    made = table(graph(5, y=[0, 1, 0, -1, 1], **masks))
    assert made.columns["split"].level == "node"
    assert made.attribute("split").tolist() == [0, 1, 2, -1, -1]
    overlapping = masks | {"val_mask": masks["train_mask"]}
    with pytest.raises(DataError, match="overlap"):
        table(graph(5, y=[0, 1, 0, 1, 1], **overlapping))
    with pytest.raises(DataError, match="only train_mask"):
        table(graph(5, y=[0, 1, 0, 1, 1], train_mask=masks["train_mask"]))
    many = masks | {"val_mask": torch.ones(5, 10, dtype=torch.bool)}
    with pytest.raises(UnsupportedError, match="10 columns"):
        table(graph(5, y=[0, 1, 0, 1, 1], **many))
    for odd in (["n1", "n2"], torch.tensor(True), masks["val_mask"].to_sparse()):
        with pytest.raises(DataError, match="val_mask"):
            table(graph(5, y=[0, 1, 0, 1, 1], **masks | {"val_mask": odd}))
    numbers = masks | {"val_mask": torch.tensor([0, 1, 0, 0, 0])}
    with pytest.raises(DataError, match="bool"):
        table(graph(5, y=[0, 1, 0, 1, 1], **numbers))


def test_integers_in_one_column_are_types_and_everything_else_features():
    kinds = {
        "types": (torch.tensor([[3], [0], [1]]), torch.int64, (3,)),
        "flat types": (torch.tensor([3, 0, 1]), torch.int64, (3,)),
        "negative": (torch.tensor([[-3], [0], [1]]), torch.float32, (3, 1)),
        "floats": (torch.ones(3, dtype=torch.float64), torch.float32, (3, 1)),
        "wide": (torch.ones(3, 2, dtype=torch.long), torch.float32, (3, 2)),
        "truth": (torch.ones(3, 1, dtype=torch.bool), torch.float32, (3, 1)),
    }
    for name, (x, dtype, shape) in kinds.items():
        made = table([Data(x=x, edge_index=PATH, edge_attr=torch.ones(4), y=torch.tensor([1]))])
        assert (made.x.dtype, made.x.shape) == (dtype, shape), name
        assert made.edge_attr.shape == (4, 1)


def test_graphs_without_features_or_edges_are_graphs_too():
    made = table([Data(num_nodes=2, y=1.5), Data(num_nodes=3, edge_index=PATH, y=0.5)])
    assert made.x.tolist() == [[1]] * 5
    assert made.edges_per_graph.tolist() == [0, 4]
    assert made.edge_attr is None
    assert table([Data(edge_index=PATH, y=1)]).nodes_per_graph.tolist() == [3]


@pytest.mark.parametrize(
    ("graphs", "error", "match"),
    [
        ([graph(), "text"], DataError, "a str"),
        ([], DataError, "in every part"),
        (5, DataError, "a int"),
        ([HeteroData()], UnsupportedError, "HeteroData"),
        (HeteroData(), UnsupportedError, "HeteroData"),
        ([graph(), graph(2)], DataError, "graph 1 between its nodes 0 to 1"),
        ([graph(), Data(x=torch.ones(3, 2), edge_index=-PATH, y=torch.tensor(1))], DataError, "graph 1"),
        ([Data(x=torch.ones(3, 2), edge_index=PATH.float(), y=1)], DTypeError, "integers in edge_index"),
        ([Data(x=torch.ones(3, 2), edge_index=PATH.t(), y=1)], DataError, r"\[2, E\]"),
        ([graph(), Data(x=torch.ones(3, 3), edge_index=PATH, y=torch.tensor(1))], DataError, "shape"),
        ([graph(), Data(edge_index=PATH, num_nodes=3, y=torch.tensor(1))], DataError, "graph 1 without it"),
        ([graph(), Data(x=torch.ones(3, 2), edge_index=PATH)], DataError, "y in every graph"),
        ([Data(x=torch.tensor([[1.0], [float("nan")]]), y=1)], DataError, "graph 0, row 1"),
        ([graph(edge_attr=torch.full((4, 1), float("inf")))], DataError, "edge_attr"),
        ([Data(x=torch.ones(0, 2), y=1)], DataError, "empty graph"),
        ([Data()], DataError, "empty graph"),
        ([Data(num_nodes=-3, y=1)], DataError, "empty graph"),
        ([Data(num_nodes=float("nan"), edge_index=PATH, y=1)], DataError, "NaN to integer"),
        ([graph(y=[[[1.0]]])], DataError, "y of one width"),
        ([graph(y=torch.ones(1, 0))], DataError, "y of one width"),
        ([graph(edge_attr=torch.ones(3, 1))], DataError, "edge_attr of 4 rows"),
    ],
)
def test_graphs_that_cannot_be_used_are_refused_with_their_number(graphs, error, match):
    with pytest.raises(error, match=match):
        table(graphs)


def saved(content) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("form", ["list", "dict", "one"])
def test_files_of_graphs_are_loaded(form, tmp_path):
    graphs = [graph(3), graph(4), graph(5)]
    content = {
        "list": graphs,
        "dict": {"train": graphs[:1], "val": graphs[1:2], "test": graphs[2:]},
        "one": graphs[0],
    }[form]
    (tmp_path / "a.pt").write_bytes(saved(content))
    made = table(load_file(tmp_path / "a.pt"))
    assert made.nodes_per_graph.tolist() == ([3] if form == "one" else [3, 4, 5])


@pytest.mark.parametrize("form", ["torch", "old torch", "pickle", "inside"])
def test_a_hostile_file_is_refused_and_nothing_of_it_runs(form, tmp_path):
    mark, path = tmp_path / "ran", tmp_path / "a.pt"
    if form == "torch":
        path.write_bytes(saved(Hostile(mark)))
    elif form == "old torch":
        torch.save([graph(), Hostile(mark)], path, _use_new_zipfile_serialization=False)
    elif form == "pickle":
        path.write_bytes(pickle.dumps(Hostile(mark)))
    else:
        path.write_bytes(saved([graph(note=Hostile(mark))]))
    with pytest.raises(DataError, match=r"a\.pt"):
        load_file(path)
    assert not mark.exists()


@pytest.mark.parametrize("content", [b"", b"hello", saved([graph()])[:-100]])
def test_a_damaged_file_is_named(content, tmp_path):
    (tmp_path / "a.pt").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.pt"):
        load_file(tmp_path / "a.pt")
    with pytest.raises(DataMissingError, match=r"b\.pt"):
        load_file(tmp_path / "b.pt")


def test_whatever_bytes_a_file_holds_it_is_read_or_refused_in_our_words(tmp_path):
    """Random bytes, truncations and changed bytes of both formats of torch.save, the same at every run."""
    draw = random.Random(0)
    graphs = [graph(), graph()]
    torch.save(graphs, tmp_path / "new.pt")
    torch.save(graphs, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    contents = [b"abc", *(draw.randbytes(draw.randrange(100)) for _ in range(50))]
    for sound in ((tmp_path / name).read_bytes() for name in ("new.pt", "old.pt")):
        contents += [sound[: draw.randrange(len(sound))] for _ in range(15)]
        for _ in range(50):
            changed = bytearray(sound)
            changed[draw.randrange(len(changed))] = draw.randrange(256)
            contents.append(bytes(changed))
    path, remedies = tmp_path / "damaged.pt", []
    for content in contents:
        path.write_bytes(content)
        try:
            table(load_file(path))
        except LRGAError as error:
            remedies.append(error.remedy)
    assert all(remedies)
    assert len(contents) // 2 < len(remedies) < len(contents)  # a changed byte of padding or of a feature does no harm


@pytest.mark.parametrize("wrapped", [lambda g: g, lambda g: [g]])
def test_a_graph_that_lost_its_content_is_refused(wrapped):
    broken = graph()
    del broken.__dict__["_store"]
    with pytest.raises(DataError, match="PyG graphs in here"):
        table(wrapped(broken))


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "my_graphs.py").write_text(
        textwrap.dedent(
            """
            import torch
            from torch_geometric.data import Data

            held = [Data(x=torch.ones(2, 1), y=torch.tensor([0.5])) for _ in range(3)]

            def make():
                return held

            def needs(argument):
                return held

            def fails():
                raise ValueError("no disk")

            class Inside:
                @staticmethod
                def make():
                    return held
            """
        )
    )
    (tmp_path / "broken_graphs.py").write_text("import no_such_package_at_all\n")
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("my_graphs", None)


@pytest.mark.parametrize("name", ["my_graphs:make", "my_graphs:held", "my_graphs:Inside.make"])
def test_a_factory_is_found_in_the_current_folder_and_called(name, module):
    path = list(sys.path)
    assert len(load_factory(name)) == 3
    assert sys.path == path


@pytest.mark.parametrize(
    ("name", "error", "match"),
    [
        ("nowhere_at_all:make", DataMissingError, "nowhere_at_all"),
        ("broken_graphs:make", DataMissingError, "no_such_package_at_all"),
        ("my_graphs:other", DataError, "other"),
        ("my_graphs:needs", DataError, "takes no argument"),
        ("my_graphs:fails", DataError, "ValueError: no disk"),
    ],
)
def test_a_factory_that_does_not_work_says_why(name, error, match, module):
    with pytest.raises(error, match=match):
        load_factory(name)


def test_loading_leaves_what_pyg_allows_to_be_loaded_as_it_was(tmp_path):
    before = torch.serialization.get_safe_globals()
    torch.save([Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))], tmp_path / "graphs.pt")
    load_file(tmp_path / "graphs.pt")
    assert set(torch.serialization.get_safe_globals()) == set(before)


@pytest.mark.filterwarnings("ignore:torch.quantize_per", "ignore:The PyTorch API of nested", "ignore:TypedStorage")
@pytest.mark.parametrize("name", ["x", "edge_index", "y", "mask"])
@pytest.mark.parametrize("kind", ["nested", "quantized"])
def test_nested_and_quantized_tensors_are_refused(tmp_path, name, kind):
    odd = {
        "nested": torch.nested.nested_tensor([torch.rand(3), torch.rand(2)]),
        "quantized": torch.quantize_per_tensor(torch.rand(3, 2), 0.1, 0, torch.qint8),
    }
    found = graph()
    found[name] = odd[kind]
    torch.save([found], tmp_path / "a.pt")
    with pytest.raises(LRGAError, match="here"):
        table(load_file(tmp_path / "a.pt"))

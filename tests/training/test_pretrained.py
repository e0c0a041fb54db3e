"""Networks saved for others: what is loaded computes the same, and what does not fit is refused."""

import json
import pickle
import sys

import pytest
import torch

import lrga
from lrga import pretrained
from lrga.errors import CheckpointError, ChecksumError, DataMissingError, DTypeError, LRGAError, OptionError
from lrga.models import DeepWalk, LinkGNN, LinkModel, LinkPredictor, MatrixFactorization
from lrga.nn import Wiring
from lrga.training import load_run, train

X, EDGES = torch.rand(6, 3), torch.tensor([[0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 0, 3]])
ATOMS = torch.tensor([[0, 1], [3, 2], [1, 1], [2, 0], [3, 1], [0, 0]])
PAIRS = torch.tensor([[0, 1, 2], [3, 4, 5]])
GNNS = {
    "plain": {"rank": None},
    "gated": {"conv": "gatedgcn", "edge_channels": 2, "task": "edge", "dropout": 0.1},
    "gat": {"conv": "gat", "heads": 2, "attention_heads": 2, "wiring": "outer-norm"},
    "own wiring": {"wiring": Wiring(concatenate=("attention", "local"), outer_residual=True)},
    "options": {"attention_options": {"qk_norm": True, "gate": True}, "readout": "max", "task": "graph"},
    "residual": {
        "conv": "gine",
        "edge_channels": 2,
        "block": "residual",
        "norm": "layer",
        "attention_dropout": 0.2,
        "head_layers": 1,
    },
    "categories": {"in_channels": (4, 3), "encoder": "embeddings"},
    "held noise": {"random_features": True, "resample_features": False},
}


def gnn(rank=3, in_channels=3, **options):
    return lrga.GNN(in_channels, 8, 2, 2, rank=rank, **options).eval()


def outputs(model):
    if isinstance(model, MatrixFactorization):
        return model(PAIRS)
    if isinstance(model, LinkModel):
        return model(None if model.embedding is not None else X, EDGES, PAIRS)
    return model(ATOMS if isinstance(model.in_channels, tuple | list) else X, EDGES)


@pytest.mark.parametrize("name", GNNS)
def test_a_loaded_network_computes_the_same(name, tmp_path):
    model = gnn(**GNNS[name])
    for parameter in model.parameters():  # not as drawn
        torch.nn.init.normal_(parameter, std=0.5)
    again = lrga.load_pretrained(lrga.save_pretrained(model, tmp_path / "m"))
    assert type(again) is lrga.GNN
    assert not again.training
    assert str(again) == str(model)
    assert torch.equal(outputs(again), outputs(model))


@pytest.mark.parametrize(
    "make",
    [
        lambda: LinkModel(LinkGNN(3, 8, 2, rank=2, attention_heads=2), LinkPredictor(8, 8, 2, kind="concat")),
        lambda: LinkModel(LinkGNN(8, 8, 1, conv="graphsage"), LinkPredictor(8, 8, 3, kind="dot"), num_nodes=6),
        lambda: MatrixFactorization(6, 4, predictor="dot"),
        lambda: DeepWalk(6, 4, hidden_channels=5, num_layers=2),
    ],
    ids=["features", "learned", "mf", "deepwalk"],
)
def test_a_loaded_link_model_computes_the_same(make, tmp_path):
    model = make().eval()
    again = lrga.load_pretrained(lrga.save_pretrained(model, tmp_path))
    assert type(again) is type(model)
    assert torch.equal(outputs(again), outputs(model))


def test_precision_scale_of_the_output_and_record_are_kept(tmp_path):
    model = gnn(task="graph").double()
    model.set_output_scale([5.0, 1.0], [2.0, 3.0])
    lrga.save_pretrained(model, tmp_path, record={"dataset": "ZINC", "mae": 0.1})
    again = lrga.load_pretrained(str(tmp_path))
    assert torch.equal(again(X.double(), EDGES), model(X.double(), EDGES))
    assert json.loads((tmp_path / "config.json").read_text())["record"] == {"dataset": "ZINC", "mae": 0.1}


def test_loading_leaves_the_random_state_alone(tmp_path):
    lrga.save_pretrained(gnn(), tmp_path)
    before = torch.get_rng_state()
    lrga.load_pretrained(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_folder_of_a_run_is_loaded_and_saved_anew(copy_run, kind, tmp_path):
    run = copy_run()
    reported = "best" if kind.name == "links" else "last"
    expected = load_run(run, which=reported)[0].state_dict()
    for which in (None, reported):
        model = lrga.load_pretrained(run, which=which)
        assert all(torch.equal(model.state_dict()[name], value) for name, value in expected.items())
    again = lrga.load_pretrained(lrga.save_pretrained(model, tmp_path / "pretrained"))
    assert all(torch.equal(again.state_dict()[name], value) for name, value in expected.items())


def test_predictions_of_a_run_stay_in_the_units_of_the_targets(make_splits, make_config, tmp_path):
    data = make_splits("graph")
    for split in data.values():
        split.columns["y"].values.mul_(1000).add_(60_000)
    result = train(make_config(max_epochs=1), tmp_path / "run", data=data)
    model = lrga.load_pretrained(result.folder)
    assert 40_000 < model(X, EDGES).item() < 80_000
    again = lrga.load_pretrained(lrga.save_pretrained(model, tmp_path / "saved"))
    assert torch.equal(again(X, EDGES), model(X, EDGES))


def test_names_are_folders_of_the_clone(tmp_path, monkeypatch):
    monkeypatch.setattr(pretrained, "NAMED", tmp_path / "pretrained")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataMissingError, match="clone of the repository"):
        lrga.load_pretrained("zinc-gcn")
    for name in ("zinc-gcn", "pattern-gat"):
        lrga.save_pretrained(gnn(), tmp_path / "pretrained" / name)
    assert lrga.load_pretrained("zinc-gcn").rank == 3
    with pytest.raises(DataMissingError, match="names available: 2.*choose a name among pattern-gat, zinc-gcn"):
        lrga.load_pretrained("zinc-gat")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataMissingError, match="a folder without config.json"):
        lrga.load_pretrained("empty")


def test_what_cannot_be_built_again_is_not_saved(tmp_path):
    with pytest.raises(DTypeError, match="safetensors.torch.save_model"):
        lrga.save_pretrained(torch.nn.Linear(2, 2), tmp_path)
    model = gnn()
    model.head = torch.nn.Identity()
    with pytest.raises(OptionError, match=r"a change of head\."):
        lrga.save_pretrained(model, tmp_path)
    with pytest.raises(OptionError, match="record of JSON values"):
        lrga.save_pretrained(gnn(), tmp_path, record={"x": X})
    lrga.save_pretrained(gnn(), tmp_path)
    with pytest.raises(OptionError, match="only with the folder of a run"):
        lrga.load_pretrained(tmp_path, which="best")


def changed(config, **arguments):
    return {**config, "arguments": config["arguments"] | arguments}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda config: [1], "save_pretrained of this version"),
        (lambda config: config | {"format": 2}, "format 2"),
        (lambda config: config | {"class": "os.system"}, "os.system"),
        (lambda config: {k: v for k, v in config.items() if k != "arguments"}, "arguments of a GNN"),
        (lambda config: changed(config, surprise=1), "surprise"),
        (lambda config: changed(config, num_layers="2"), "arguments of a GNN"),
        (lambda config: changed(config, num_layers=10**9), "memory"),
        (lambda config: changed(config, hidden_channels=10**6), "memory"),
        (lambda config: changed(config, hidden_channels=9), "size mismatch|shape"),
        (lambda config: config | {"output_scale": {"mean": [1.0], "std": [1.0]}}, "2 outputs"),
        (lambda config: config | {"sha256": "0" * 64}, "other content"),
    ],
)
def test_a_changed_configuration_is_refused(change, says, tmp_path):
    path = lrga.save_pretrained(gnn(), tmp_path) / "config.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(LRGAError, match=says) as error:
        lrga.load_pretrained(tmp_path)
    assert isinstance(error.value, CheckpointError | ChecksumError)


def test_damaged_weights_and_pickles_are_refused(tmp_path):
    weights = lrga.save_pretrained(gnn(), tmp_path) / "model.safetensors"
    whole = weights.read_bytes()
    for content in (whole[:-5], pickle.dumps({"a": 1}), b""):
        weights.write_bytes(content)
        with pytest.raises(CheckpointError, match="safetensors"):
            lrga.load_pretrained(tmp_path)
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ChecksumError, match="sha256"):
        lrga.load_pretrained(tmp_path)
    weights.unlink()
    with pytest.raises(CheckpointError, match="(?i)no such file"):
        lrga.load_pretrained(tmp_path)


def test_the_hub_is_asked_for_two_files_only(tmp_path, monkeypatch):
    saved, asked = lrga.save_pretrained(gnn(), tmp_path), []

    class Hub:
        @staticmethod
        def snapshot_download(name, **options):
            asked.append((name, options))
            if name != "owner/name":
                raise OSError("404 Not Found")
            return str(saved)

    monkeypatch.setitem(sys.modules, "huggingface_hub", Hub)
    assert lrga.load_pretrained("hf://owner/name@v1").rank == 3
    assert asked == [("owner/name", {"revision": "v1", "allow_patterns": ["config.json", "model.safetensors"]})]
    with pytest.raises(DataMissingError, match="404 Not Found"):
        lrga.load_pretrained("hf://nobody/nothing")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"pip install 'lrga\[hub\]'"):
        lrga.load_pretrained("hf://owner/name")


def test_models_of_the_hub_share_the_files_of_others(tmp_path):
    pytest.importorskip("huggingface_hub", reason="needs huggingface_hub: pip install 'lrga[hub]'")
    from lrga.hub import HubGNN, HubLinkModel

    model = HubGNN(3, 8, 2, 2, rank=3, task="graph", generator=torch.Generator()).eval()
    model.set_output_scale([5.0, 1.0], [2.0, 3.0])
    model.save_pretrained(tmp_path / "a")
    assert (tmp_path / "a" / "README.md").is_file()
    for again in (lrga.load_pretrained(tmp_path / "a"), HubGNN.from_pretrained(tmp_path / "a")):
        assert torch.equal(outputs(again), outputs(model))
    assert type(again) is HubGNN
    link = LinkModel(LinkGNN(3, 8, 1, rank=2), LinkPredictor(8, 8, 2)).eval()
    again = HubLinkModel.from_pretrained(lrga.save_pretrained(link, tmp_path / "b"))
    assert torch.equal(outputs(again), outputs(link))
    with pytest.raises(CheckpointError, match="a GNN in .*got a LinkModel"):
        HubGNN.from_pretrained(tmp_path / "b")
    (tmp_path / "a" / "model.safetensors").rename(tmp_path / "a" / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="(?i)no such file"):
        HubGNN.from_pretrained(tmp_path / "a")

"""A dry run says what would run: parameters, batches, seeds."""

from lrga.experiments.study import Study
from lrga.experiments.sweeps import sweep_of
from lrga.paper.protocols import paper_config
from lrga.paper.reproduction import reproduction
from lrga.training.problems.data import plan_network


def test_exact_parameters_and_batches_of_cells_are_listed_without_data(tmp_path):
    plan = reproduction("table1", model="gatedgcn", lrga=True, budget="500K").plan(tmp_path)
    found = {row["dataset"]: (row["parameters"], row["optimizer"]["batch_size"]) for row in plan.to_json()["cells"]}
    assert found == {
        "PATTERN": (486_742, 32),
        "CLUSTER": (437_635, 32),
        "ZINC": (446_311, 128),
        "MNIST": (486_990, 128),
        "CIFAR10": (487_150, 128),
    }
    assert list(tmp_path.iterdir()) == []
    assert plan.notes[0] == "20 runs: 20 pending."


def test_what_is_done_is_marked(tiny, tmp_path):
    study = sweep_of("CLUSTER", {"rank": [0, 4]}, seeds=[41], **tiny)
    Study(title="half of it", cells=study.cells[:1]).run(tmp_path, progress=False)
    plan = study.plan(tmp_path)
    assert [row["runs"][0]["status"] for row in plan.to_json()["cells"]] == ["finished", "pending"]
    assert "(41)" in plan.to_text()
    assert "2 runs: 1 finished, 1 pending." in plan.notes


def test_own_graphs_are_asked_for_their_inputs(tiny):
    from lrga.data import load

    splits = load("CLUSTER", tiny["root"], sizes=(8, 4, 4))
    network = plan_network(paper_config("CLUSTER").changed(name="mine"), splits)
    assert (network.encoder, network.in_channels, network.out_channels) == ("embedding", 7, 6)


def test_plans_of_links_have_no_patience_and_embeddings_no_layers(tmp_path):
    text = reproduction("table2", dataset="ogbl-ddi").plan(tmp_path).to_text()
    assert "patience" not in text
    assert next(line for line in text.splitlines() if "MF" in line).split()[2:4] == ["256", "1,224,193"]
    assert "patience" in reproduction("table3").plan(tmp_path).to_text()

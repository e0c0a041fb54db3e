"""The examples run as they are shown."""

import runpy
import sys
from pathlib import Path

import pytest

from tests.helpers.processes import end, start

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def run(capsys, monkeypatch, one_thread):
    """``run(name, *arguments)``: what an example prints, run as a script in this process."""

    def run_script(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run_script


def test_lrga_inside_gps_learns_and_does_not_leak(run):
    performer, ours = run("gps.py").splitlines()
    assert float(ours.split("LRGA")[1].split("%")[0]) > 90
    assert float(ours.split("alone: ")[1]) < 1e-5
    assert float(performer.split("alone: ")[1]) > 1e-3


def test_links_of_an_own_edge_list_are_found(run):
    lines = run("link_prediction.py").splitlines()
    scores = [float(line.split("AUC ")[1].split()[0]) for line in lines if "test AUC" in line]
    assert len(scores) == 2
    assert min(scores) > 0.75
    same_club = [int(line.split()[0].removeprefix("person")) % 4 == 0 for line in lines[-5:]]
    assert sum(same_club) >= 3


def test_an_augmented_model_attends_to_what_no_edge_reaches(run, tmp_path):
    lines = run("augmented_model.py", str(tmp_path / "page.html")).splitlines()
    plain, augmented = (float(line.split()[1].rstrip("%")) for line in lines[:2])
    assert plain < 85 < 97 < augmented
    shares = [int(line.split("attention: ")[1].split("%")[0]) for line in lines if "on the key" in line]
    assert max(shares) > 25  # of 36 nodes
    assert "conv1.attention" in (tmp_path / "page.html").read_text()


@pytest.mark.filterwarnings("ignore")  # of Lightning
def test_lightning_trains_an_augmented_model_and_loads_its_checkpoint(run, tmp_path):
    pytest.importorskip("lightning", reason="needs lightning: pip install 'lrga[lightning]'")
    *_, last = run("lightning_training.py", str(tmp_path)).splitlines()
    assert float(last.split("%")[0]) > 90
    assert list(tmp_path.glob("*.ckpt"))


def test_a_graph_divided_between_two_processes_gives_the_losses_of_one(run):
    options = ("--nodes", "400", "--steps", "3", "--device", "cpu")
    alone = [line.split(",")[0] for line in run("partitioned.py", *options).splitlines() if line.startswith("step")]
    ranks = start(EXAMPLES / "partitioned.py", 2, *options)
    try:
        ends = [rank.communicate(timeout=120) for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0, 0], ends
    finally:
        end(ranks)
    divided = [line.split(",")[0] for line in "".join(out for out, _ in ends).splitlines() if line.startswith("step")]
    assert len(divided) == 3
    for one, two in zip(alone, divided, strict=True):
        assert float(one.split()[-1]) == pytest.approx(float(two.split()[-1]), abs=2e-5)

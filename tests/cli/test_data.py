import json
import os

import pytest

from lrga.data.datasets.spec import dataset_specs
from tests.helpers.commands import lrga

SMALL = ["--sizes", "6,2,3", "--seed", "5"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """What ``lrga data …`` prints, on an empty data root."""
    monkeypatch.setenv("LRGA_DATA", str(tmp_path))
    return lambda *arguments, code=0: lrga("data", *arguments, code=code).stdout


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_the_list_shows_every_set_and_fits_the_terminal(run, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    run("build", "CLUSTER", *SMALL)
    output = run("ls")
    for word in (*dataset_specs(), "10,000/2,000/2,000", "118.9", "6,079", "140/500/1,000", "10,556", "2,135,822"):
        assert word in output
    for word in ("generated", "downloaded", "MIT", "CC BY-NC 4.0", "not built", "MB*"):
        assert word in output
    own = [line for line in output.splitlines() if not line.startswith("Data root")]
    assert max(map(len, own)) <= columns
    assert "…" not in output


def test_the_list_as_json(run):
    rows = {row["name"]: row for row in json.loads(run("ls", "--json"))}
    assert list(rows) == list(dataset_specs())
    assert rows["ZINC"]["files"][0]["url"].startswith("https://")
    assert rows["PATTERN"]["citation"]
    assert (rows["Cora"]["task"], rows["Cora"]["classes"], rows["Cora"]["metric"]) == (
        "node classification",
        7,
        "accuracy",
    )


def test_info_shows_citation_files_and_licence(run):
    output = run("info", "zinc")
    for word in ("Irwin", "molecules.zip", "28", "mean absolute error", "lrga data build ZINC"):
        assert word in output
    assert json.loads(run("info", "zinc", "--json"))["name"] == "ZINC"


def test_build_says_what_it_built_as_json_too(run, tmp_path):
    output = run("build", "CLUSTER", *SMALL)
    assert "6 graphs" in output
    assert str(tmp_path / "CLUSTER" / "seed-5_sizes-6-2-3") in output
    assert (tmp_path / "CLUSTER/seed-5_sizes-6-2-3/manifest.json").is_file()
    assert str(tmp_path / "CLUSTER") in run("info", "CLUSTER").replace("\n", "").replace(" ", "")
    report = json.loads(run("build", "CLUSTER", *SMALL, "--json"))
    assert report["built"]
    assert report["statistics"]["train"]["graphs"] == 6
    assert set(report["files"]) == {"train.safetensors", "val.safetensors", "test.safetensors"}


def test_a_dry_run_builds_nothing(run, tmp_path):
    assert "would be generated" in run("build", "CLUSTER", *SMALL, "--dry-run")
    assert not json.loads(run("build", "CLUSTER", *SMALL, "--dry-run", "--json"))["built"]
    assert list(tmp_path.iterdir()) == []


def test_the_data_root_can_be_named(run, tmp_path):
    run("build", "CLUSTER", *SMALL, "--data-root", str(tmp_path / "other"))
    assert (tmp_path / "other/CLUSTER").is_dir()
    assert not (tmp_path / "CLUSTER").exists()


def test_verify_ends_with_0_on_sound_files(run):
    run("build", "CLUSTER", *SMALL)
    assert run("verify", "CLUSTER").count("ok") == 3
    assert [check["problem"] for check in json.loads(run("verify", "CLUSTER", "--json"))] == [None, None, None]


def test_verify_ends_with_1_and_names_the_bad_file(run, tmp_path):
    run("build", "CLUSTER", *SMALL)
    path = tmp_path / "CLUSTER/seed-5_sizes-6-2-3/val.safetensors"
    path.write_bytes(path.read_bytes()[:-3])
    output = run("verify", "CLUSTER", code=1)
    assert "BAD" in output
    assert str(path) in output
    problems = {check["file"]: check["problem"] for check in json.loads(run("verify", "CLUSTER", "--json", code=1))}
    assert "truncated" in problems[str(path)]


def test_one_damaged_manifest_does_not_hide_the_other_sets(run, tmp_path):
    run("build", "CLUSTER", *SMALL)
    run("build", "CLUSTER", "--sizes", "1,1,1")
    run("build", "PATTERN", *SMALL)
    folder = tmp_path / "CLUSTER/seed-5_sizes-6-2-3"
    (folder / "manifest.json").write_text("null")
    lines = {line.split()[0]: line for line in run("ls").splitlines() if line.strip()}
    assert lines["CLUSTER"].rstrip().endswith("damaged")
    assert lines["PATTERN"].rstrip().endswith("MB*")
    assert lines["ZINC"].rstrip().endswith("not built")
    assert str(folder) in lines["Damaged:"]
    row = next(row for row in json.loads(run("ls", "--json")) if row["name"] == "CLUSTER")
    assert [variant["problem"] is None for variant in row["variants"]] == [False, True]
    assert row["built"]
    assert "(damaged)" in run("info", "CLUSTER")
    assert "lrga data build CLUSTER --seed 5 --sizes 6,2,3" in run("verify", "CLUSTER", code=1)


def test_a_dry_run_with_a_source_says_that_it_would_be_read(run, tmp_path):
    source = tmp_path / "mine"
    source.mkdir()
    for name in ("TSP", "ZINC"):
        output = run("build", name, "--source", str(source), "--dry-run")
        assert f"{name} would be built from the files in {source}" in output
        assert "generated" not in output
        assert "https://" not in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data", "verify", "TSP"], "lrga data build TSP"),
        (["data", "build", "ZINK"], "PATTERN"),
        (["data", "build", "TSP", "--source", "nowhere", "--dry-run"], "nowhere"),
        (["data", "build", "CLUSTER", "--sizes", "a,b"], "1500,250,250"),
        (["data", "build", "ZINC", "--seed", "3"], "options of ZINC"),
        (["data", "build", "ZINC", "--source", "nowhere"], "nowhere"),
        (["data", "build", "ZINC", "--no-download"], "molecules.zip"),
        (["data", "build", "CLUSTER", "--sizes", "5,5,5", "--data-root", f"{os.devnull}/x"], "another folder"),
        (["data", "ls", "--data-root", "a" * 300], "too long"),
    ],
)
def test_mistakes_are_answered_in_one_line_with_a_remedy(tmp_path, monkeypatch, entry_point, arguments, message):
    monkeypatch.setenv("LRGA_DATA", str(tmp_path))
    done = entry_point(*arguments)
    assert done.returncode == 1
    error = done.stderr.replace("\n", " ")
    assert "Error: expected" in error
    assert "To fix:" in error
    assert message in error
    assert "Traceback" not in error

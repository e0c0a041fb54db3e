"""The benchmark of divided graphs, on two real processes."""

import importlib
import json

import pytest


@pytest.mark.slow
def test_bytes_are_counted_and_the_attentions_do_not_grow_with_the_graph(capsys):
    importlib.import_module("distributed").main(["--nodes", "1000", "--ranks", "2", "--steps", "1", "--json"])
    record = json.loads(capsys.readouterr().out)
    rows = {(row["case"], row["nodes"]): row for row in record["rows"]}
    assert all(max(row["loss_error"], row["gradient_error"]) < 1e-8 for row in rows.values())
    small, large = rows["LRGA + GCN", 100], rows["LRGA + GCN", 1000]
    assert small["attention_bytes"] == large["attention_bytes"] == 2 * 2 * (32 * 32 + 2 * 32) * 4
    assert small["halo_bytes"] < large["halo_bytes"]
    assert rows["GCN", 1000]["attention_bytes"] == 0


def test_options_are_checked_before_anything_runs(tmp_path, capsys):
    main = importlib.import_module("distributed").main
    for wrong, said in (
        (["--ranks", "0"], "at least 1"),
        (["--out", str(tmp_path / "none" / "record.json")], "does not exist"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(wrong)
        assert said in capsys.readouterr().err

import json
import os
import signal
import time

from tests.helpers.commands import lrga
from tests.helpers.processes import Command


def test_a_small_demo_prints_both_results_and_names_its_picture(tmp_path):
    options = ["--sizes", "8,4,4", "--epochs", "1", "--output", str(tmp_path)]
    result = lrga("demo", *options)
    assert "53.44 ± 2.02" in result.stdout
    assert "68.44 ± 0.16" in result.stdout
    assert f"Curves: {tmp_path / 'curves.png'}" in result.stdout
    assert "epoch 1/1" in result.stderr
    again = lrga("demo", *options, "--json", "--quiet")
    assert json.loads(again.stdout)["picture"] == str(tmp_path / "curves.png")


def test_ctrl_c_stops_it_cleanly_and_says_how_to_go_on(tmp_path):
    options = ["--sizes", "16,4,4", "--epochs", "100000", "--threads", "1", "--output", str(tmp_path / "demo")]
    with Command("demo", *options) as process:
        log = process.texts[1]
        deadline = time.monotonic() + 60
        while not (log.exists() and "epoch" in log.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        table, said = process.communicate(timeout=30)
        assert process.returncode == 130, said
    assert "run the same command to resume" in said
    assert "Traceback" not in said
    assert "not yet run" in table  # as far as it goes

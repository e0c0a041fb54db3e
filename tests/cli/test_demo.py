import json
import signal
import subprocess
import sys
import time

from typer.testing import CliRunner

from lrga.cli.main import app

runner = CliRunner()


def test_a_small_demo_prints_both_results_and_names_its_picture(tmp_path):
    options = ["--sizes", "8,4,4", "--epochs", "1", "--output", str(tmp_path)]
    result = runner.invoke(app, ["demo", *options])
    assert result.exit_code == 0, result.output
    assert "53.44 ± 2.02" in result.stdout
    assert "68.44 ± 0.16" in result.stdout
    assert f"Curves: {tmp_path / 'curves.png'}" in result.stdout
    assert "epoch 1/1" in result.stderr
    again = runner.invoke(app, ["demo", *options, "--json", "--quiet"])
    assert json.loads(again.stdout)["picture"] == str(tmp_path / "curves.png")


def test_ctrl_c_stops_it_cleanly_and_says_how_to_go_on(tmp_path):
    command = [sys.executable, "-m", "lrga", "demo", "--sizes", "16,4,4", "--epochs", "100000", "--threads", "1"]
    log = tmp_path / "stderr.txt"
    with log.open("w") as stderr, (tmp_path / "stdout.txt").open("w") as stdout:
        process = subprocess.Popen([*command, "--output", str(tmp_path / "demo")], stdout=stdout, stderr=stderr)
        try:
            deadline = time.monotonic() + 60
            while "epoch" not in log.read_text() and time.monotonic() < deadline:
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            code = process.wait(timeout=30)
        finally:
            process.kill()
            process.wait()
    text = log.read_text()
    assert code == 130, text
    assert "the same command continues" in text
    assert "Traceback" not in text
    assert "not yet run" in (tmp_path / "stdout.txt").read_text()  # the table, as far as it goes

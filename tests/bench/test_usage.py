"""Minutes are summed from records, those that several runs shared once."""

import re

import pytest

from lrga.bench.gathering import gather_records
from lrga.bench.protocols import paper_config
from lrga.bench.records import RunRecord, write_record
from lrga.bench.usage import usage_of, usage_report

EPOCH = {
    "epoch": 2, "lr": 1e-3, "train_loss": 0.5, "train_metric": 0.6, "val_loss": 0.7, "val_metric": 0.8,
    "test_loss": 0.9, "test_metric": 0.45, "seconds": 1.0, "elapsed": 2.0,
}  # fmt: skip


def write(folder, seed, starts, end, *, seconds, status="finished", cpu=False):
    gpu = {"gpu": "NVIDIA H200", "engine": "captured", "device": "cuda:0"}
    gpu = {"gpu": None, "cpu": "A CPU", "engine": "plain", "device": "cpu"} if cpu else gpu
    write_record(
        RunRecord(
            run=f"zinc-{seed}", status=status, reason="", data={"name": "ZINC"}, model={"parameters": 7},
            config=paper_config("ZINC", "gcn", seed=seed).to_json(), seed=seed, metric="mae", epochs=2, seconds=seconds,
            last=EPOCH, best=EPOCH, curve={}, published=None, time=f"2020-06-01T{end}+0000",
            environment=[{"started": f"2020-06-01T{start}+0000", **gpu} for start in starts],
        ),
        folder,
    )  # fmt: skip


def test_runs_that_share_a_gpu_take_its_time_once(tmp_path):
    write(tmp_path, 41, ["10:00:00"], "10:10:00", seconds=590.0)
    write(tmp_path, 95, ["10:05:00"], "10:15:00", seconds=590.0)
    used = usage_of(gather_records([tmp_path]))
    assert (used.runs, used.unfinished, used.busy_minutes) == (2, 0, 15.0)
    assert used.run_minutes == pytest.approx(1180 / 60)
    assert used.devices == {"NVIDIA H200": 2}


def test_a_continued_run_counts_once_with_all_its_slots(tmp_path):
    write(tmp_path, 41, ["10:00:00"], "10:09:00", seconds=540.0, status="time-limited")
    paused = usage_of(gather_records([tmp_path]))
    assert (paused.runs, paused.unfinished) == (0, 1)
    assert "0 finished and 1 unfinished runs" in paused.sentence()
    write(tmp_path, 41, ["10:00:00", "12:00:00"], "12:03:00", seconds=720.0)
    used = usage_of(gather_records([tmp_path]))
    assert (used.runs, used.unfinished, used.busy_minutes, used.run_minutes) == (1, 0, 12.0, 12.0)


def test_the_whole_of_table_1_is_estimated(tmp_path):
    write(tmp_path, 41, ["10:00:00"], "10:10:00", seconds=600.0)
    lines = usage_report([tmp_path]).lines()
    assert lines[0].startswith("1 finished runs (1 on NVIDIA H200): 10 minutes of the device")
    assert lines[1].startswith("PATTERN, CLUSTER and ZINC of Table 1 with four seeds (144 runs)")
    assert lines[2].startswith("Table 1 with four seeds (264 runs)")
    assert all("captured steps, from 1 runs; how far" in line for line in lines[1:])
    assert not any("\n" in line for line in lines)


def test_hours_of_the_device_are_fewer_where_runs_share_it(tmp_path):
    def hours():
        line = usage_report([tmp_path]).lines()[1]
        return float(re.search(r"an estimated ([\d.]+) hours of NVIDIA H200", line).group(1)), "at a time" in line

    write(tmp_path, 41, ["10:00:00"], "10:10:00", seconds=600.0)
    alone, shared = hours()
    assert not shared
    write(tmp_path, 95, ["10:00:00"], "10:10:00", seconds=600.0)
    halved, shared = hours()
    assert shared
    assert halved == pytest.approx(alone / 2, rel=0.01)


def test_the_minutes_of_a_cpu_are_not_those_of_the_gpu(tmp_path):
    for seed in (41, 95):
        write(tmp_path, seed, ["10:00:00"], "10:10:00", seconds=600.0)
    alone = usage_report([tmp_path]).lines()
    write(tmp_path, 12, ["10:00:00"], "11:00:00", seconds=3600.0, cpu=True)
    lines = usage_report([tmp_path]).lines()
    assert lines[0].startswith("2 finished runs (2 on NVIDIA H200): 10 minutes of the device, 20 when")
    assert lines[1].startswith("1 finished runs (1 on A CPU): 60 minutes of the device")
    assert lines[2:] == alone[1:]

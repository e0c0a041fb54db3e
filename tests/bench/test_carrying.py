"""A campaign goes on elsewhere from one small file, and ends as if it had never moved."""

import io
import shutil
import tarfile
import time
from dataclasses import replace

import pytest

from lrga.bench.carrying import pack, unpack
from lrga.bench.protocols import table1
from lrga.bench.records import find_record, read_records, write_record
from lrga.bench.runner import Campaign
from lrga.errors import DataError
from lrga.training.callbacks.events import Listener


class Slow(Listener):
    def epoch_done(self, record):
        time.sleep(0.7)


def test_a_paused_campaign_continues_elsewhere_and_ends_bit_equal(tiny, tmp_path):
    tiny["max_epochs"] = 4
    cell = table1("CLUSTER", seeds=[41, 95], **tiny)
    undisturbed = Campaign([cell], tmp_path / "here").run()
    paused = Campaign([cell], tmp_path / "a", time_limit=1 / 60, listeners=lambda title: (Slow(),)).run()
    assert [outcome.status for outcome in paused] == ["time-limited", "pending"]
    size = pack(tmp_path / "a", tmp_path / "state.tar")
    assert size == (tmp_path / "state.tar").stat().st_size
    with tarfile.open(tmp_path / "state.tar") as archive:
        names = archive.getnames()
    assert len({name.split("/")[2] for name in names if "/checkpoints/" in name}) == 1  # the newest alone
    said = unpack(tmp_path / "state.tar", tmp_path / "b")
    assert said[0] == "1 new records"
    assert "taken up at 00000" in said[1]
    shutil.rmtree(tmp_path / "a")
    moved = Campaign([cell], tmp_path / "b").run()
    numbers = [{k: v for k, v in o.record.last.items() if k not in ("seconds", "elapsed")} for o in moved]
    assert numbers == [{k: v for k, v in o.record.last.items() if k not in ("seconds", "elapsed")} for o in undisturbed]
    assert len(moved[0].record.environment) == 2  # it says that it was continued
    assert len(list((tmp_path / "b" / "records").glob("*.attempt-1.json"))) == 1  # and the pause is not lost
    assert pack(tmp_path / "b", tmp_path / "end.tar") < size  # finished runs are their records
    assert unpack(tmp_path / "state.tar", tmp_path / "b")[1].endswith("has come as far here")
    assert len(read_records(tmp_path / "b")) == 2
    for source in (tmp_path / "state.tar", tmp_path / "here" / "records"):
        unpack(source, tmp_path / "c")
    assert pack(tmp_path / "c", tmp_path / "c.tar") < size  # what was finished elsewhere needs no checkpoint


def test_records_are_added_to_those_that_are_there(tiny, tmp_path):
    Campaign([table1("CLUSTER", seeds=[41], **tiny)], tmp_path / "a").run()
    record = read_records(tmp_path / "a")[0]
    for folder, reason in (("b", "one reason"), ("c", "another")):
        write_record(replace(record, status="failed", reason=reason), tmp_path / folder)
    pack(tmp_path / "b", tmp_path / "b.tar")
    assert unpack(tmp_path / "b.tar", tmp_path / "c") == ["1 new records"]
    assert unpack(tmp_path / "b.tar", tmp_path / "b") == ["0 new records"]
    assert unpack(tmp_path / "b.tar", tmp_path / "c") == ["0 new records"]
    assert find_record(tmp_path / "c", record.run).reason == "one reason"
    assert len(list((tmp_path / "c" / "records").iterdir())) == 2
    pack(tmp_path / "a", tmp_path / "a.tar")
    unpack(tmp_path / "a.tar", tmp_path / "c")
    assert find_record(tmp_path / "c", record.run).status == "finished"


def test_runs_of_a_folder_of_records_are_not_made_again(tiny, tmp_path):
    cell = table1("CLUSTER", seeds=[41], **tiny)
    Campaign([cell], tmp_path / "a").run()
    shutil.move(tmp_path / "a" / "records", tmp_path / "results" / "table1")
    assert unpack(tmp_path / "results", tmp_path / "b") == ["1 new records"]
    assert not Campaign([cell], tmp_path / "b").run()[0].fresh
    assert unpack(tmp_path / "results", tmp_path / "b") == ["0 new records"]


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "records/../../x", "alone"])
def test_a_file_that_points_elsewhere_is_refused(name, tmp_path):
    with tarfile.open(tmp_path / "odd.tar", "w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = 1
        archive.addfile(entry, io.BytesIO(b"x"))
    with pytest.raises(DataError, match="packed campaign"):
        unpack(tmp_path / "odd.tar", tmp_path / "runs")
    assert not (tmp_path / "outside").exists()


def test_what_is_no_archive_is_refused(tmp_path):
    (tmp_path / "odd.tar").write_bytes(b"nothing of the kind")
    for path in ("odd.tar", "missing.tar"):
        with pytest.raises(DataError, match="packed campaign"):
            unpack(tmp_path / path, tmp_path / "runs")

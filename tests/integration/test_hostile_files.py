"""Damaged and hostile files end in a clean error or are read: never in a traceback, in all memory, or not at all."""

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from hostile_files import FORMATS, SECONDS, Format, TooLong, damage, make_csv, mutate, try_reading

from lrga.errors import DataError

PROGRAM = Path(__file__).with_name("hostile_files.py")
FILES = 60  # of each format
BAD = ("traceback", "memory", "time", "crash")


def read_files(names, first, last, folder):
    """What reading led to, as (format, number) → the last line said of that file; a dead reader is started again."""
    found = {}
    pending = list(names)
    begin = first
    while pending:
        command = [sys.executable, str(PROGRAM), ",".join(pending), "0", str(begin), str(last), str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        silent_since = [time.monotonic()]
        watch = threading.Thread(target=_kill_when_silent, args=(process, silent_since), daemon=True)
        watch.start()
        line = None
        for text in process.stdout:
            silent_since[0] = time.monotonic()
            line = json.loads(text)
            found[line["format"], line["number"]] = line
        error = process.communicate()[1]
        if process.returncode == 0:
            return found
        assert line is not None, error
        assert line["outcome"] == "started", error  # else the program itself is wrong
        line |= {"outcome": "time" if process.returncode == -9 else "crash", "told": error[-2000:]}
        pending, begin = pending[pending.index(line["format"]) :], line["number"] + 1
        if len(pending) > 1:  # the others begin at their first file
            found |= read_files(pending[1:], first, last, folder)
            pending = pending[:1]
    return found


def _kill_when_silent(process, silent_since):
    """For what signals do not end: code outside Python that never returns."""
    while process.poll() is None:
        if time.monotonic() - silent_since[0] > 2 * SECONDS:
            process.kill()
        time.sleep(0.5)


def table_of(found):
    rows = []
    for name in dict.fromkeys(form for form, _ in found):
        counts = Counter(line["outcome"] for (form, number), line in found.items() if form == name and number >= 0)
        rows.append((name, sum(counts.values()), counts["clean"], counts["accepted"], *(counts[word] for word in BAD)))
    rows.append(("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])))
    head = ("format", "tried", "clean error", "accepted", *BAD)
    return "\n".join(f"{row[0]:<20}" + "".join(f"{value:>12}" for value in row[1:]) for row in [head, *rows])


def check(found, names, count):
    for name in names:
        assert found[name, -1]["outcome"] == "accepted", found[name, -1]  # sound files are read
        assert sum(form == name for form, _ in found) == count + 1
    bad = [line for line in found.values() if line["outcome"] not in ("clean", "accepted")]
    told = [f"{line['format']} {line['number']} ({line['file']}): {line['outcome']}\n{line['told']}" for line in bad]
    assert not told, "\n\n".join(told[:10])


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory as Linux has them")
@pytest.mark.slow
def test_no_file_of_any_format_ends_in_a_traceback(tmp_path, capsys):
    found = read_files(FORMATS, 0, FILES, tmp_path)
    with capsys.disabled():
        print(f"\n{table_of(found)}")
    check(found, FORMATS, FILES)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory as Linux has them")
def test_some_files_of_the_users_own_formats(tmp_path):
    names = ["csv", "edge list", "torch file", "npz", "pickle"]
    check(read_files(names, 1000, 1002, tmp_path), names, 2)


def test_the_same_number_is_the_same_file(tmp_path):
    import random

    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        make_csv(tmp_path / name)
        what = damage(tmp_path / name, FORMATS["csv"], random.Random("csv 0 3"))
        made.append((what, {p.name: p.read_bytes() for p in (tmp_path / name).rglob("*.csv") if p.is_file()}))
    assert made[0] == made[1]
    assert len({mutate(b"12,13\n" * 9, random.Random(seed)) for seed in range(50)}) > 25


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(None, "accepted"), (DataError("a", "b", "c"), "clean"), (ValueError(), "traceback"), (MemoryError(), "memory"),
     (TooLong(), "time")],
)  # fmt: skip
def test_every_outcome_is_told_from_the_others(error, outcome, tmp_path):
    def read():
        if error is not None:
            raise error

    assert try_reading(Format(make_csv, (), lambda folder: [read]), tmp_path)[0] == outcome


def test_a_reader_that_dies_or_hangs_is_noticed(tmp_path, monkeypatch):
    program = tmp_path / "program.py"
    program.write_text(
        "import json, os, sys\n"
        "first, last = int(sys.argv[3]), int(sys.argv[4])\n"
        "for number in range(first, last):\n"
        "    print(json.dumps({'format': 'f', 'number': number, 'outcome': 'started', 'file': ''}), flush=True)\n"
        "    if number == 1:\n"
        "        os.abort()\n"
        "    print(json.dumps({'format': 'f', 'number': number, 'outcome': 'clean', 'file': ''}), flush=True)\n"
    )
    monkeypatch.setitem(globals(), "PROGRAM", program)
    found = read_files(["f"], 0, 4, tmp_path)
    assert [found["f", number]["outcome"] for number in range(4)] == ["clean", "crash", "clean", "clean"]
    assert "crash" in table_of(found)
    with pytest.raises((AssertionError, KeyError)):
        check(found, ["f"], 4)

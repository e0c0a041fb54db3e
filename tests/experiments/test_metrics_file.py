"""The epochs of a run folder, however its file was left."""

import json

from lrga.experiments.recording import COLUMNS, read_metrics

SOUND = json.dumps(dict.fromkeys(COLUMNS, 1))


def test_sound_lines_are_read_and_others_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{SOUND}\nnonsense\n{{"epoch": 2}}\n[1]\n{SOUND.replace("1", "true", 1)}\n{SOUND}\n')
    epochs, faults = read_metrics(path)
    assert len(epochs) == 2
    assert [fault.split(":")[0] for fault in faults] == [f"metrics.jsonl, line {n}" for n in (2, 3, 4, 5)]


def test_what_is_no_number_of_an_epoch_is_a_fault_but_half_a_last_line_is_none(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(f"{SOUND}\n{SOUND[:20]}")
    assert [len(part) for part in read_metrics(path)] == [1, 0]
    path.write_text(f"{SOUND}\n{SOUND}")  # only its end of line is missing
    assert [len(part) for part in read_metrics(path)] == [2, 0]
    path = tmp_path / "metrics.jsonl"
    path.write_text(SOUND.replace("1", "NaN", 1) + "\n")
    assert [len(part) for part in read_metrics(path)] == [0, 1]
    line = dict.fromkeys(COLUMNS, 1.0)
    file = tmp_path / "metrics.jsonl"
    file.write_text("".join(json.dumps(entry) + "\n" for entry in (line, line | {"lr": 10**400})))
    epochs, faults = read_metrics(file)
    assert len(epochs) == 1
    assert faults == ["metrics.jsonl, line 2: not the numbers of an epoch"]


def test_a_folder_in_its_place_is_told(tmp_path):
    (tmp_path / "metrics.jsonl").mkdir()
    assert read_metrics(tmp_path / "metrics.jsonl")[1]

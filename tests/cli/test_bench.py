import json

import pytest

from lrga.errors import DeviceError
from lrga.speed import measure as speed
from tests.helpers.commands import lrga


@pytest.fixture(autouse=True)
def small_and_narrow(monkeypatch):
    monkeypatch.setattr(speed, "CASES", {"two graphs": [3, 7], "one graph": [12]})
    monkeypatch.setattr(speed, "SECONDS", 0.001)
    monkeypatch.setenv("COLUMNS", "80")


def test_tables_fit_80_columns_and_json_is_all_of_stdout():
    result = lrga("bench", "--device", "cpu", "--width", "8", "--rank", "3", "--quiet")
    assert max(map(len, result.stdout.splitlines())) <= 80
    for method in speed.METHODS:
        assert method in result.stdout
    assert "width 8, rank 3" in result.stdout
    result = lrga("bench", "--device", "cpu", "--width", "8", "--rank", "3", "--json")
    values = json.loads(result.stdout)
    assert values["rows"][0]["method"] == "lrga"


def test_a_device_that_is_none_is_refused():
    with pytest.raises(DeviceError):
        lrga("bench", "--device", "tpu")

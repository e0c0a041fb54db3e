import time
from pathlib import Path

import numpy as np
import pytest

from lrga.data.own.csv_folder import read_table
from lrga.errors import DataError, DataMissingError


def write(folder: Path, content: str | bytes, name: str = "nodes.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(folder: Path, content: str | bytes, *required, **options):
    return read_table(write(folder, content), *required, **options)


def test_columns_come_as_text_or_as_numbers_and_names_of_classes_as_text(tmp_path):
    table = read(tmp_path, 'node,x0,x1,y\n"a, b",1,0.5,3\n c ,-2,1e3,4\n')
    assert table.texts == {"node": ["a, b", "c"]}
    assert {name: values.tolist() for name, values in table.numbers.items()} == {
        "x0": [1, -2],
        "x1": [0.5, 1000],
        "y": [3, 4],
    }
    assert {name for name, values in table.numbers.items() if values.dtype == np.int64} == {"x0", "y"}
    assert table.rows == 2
    table = read(tmp_path, "node,y\na,cat\nb,dog\n")
    assert table.texts["y"] == ["cat", "dog"]
    assert "y" not in table.numbers


@pytest.mark.parametrize(
    "content",
    [
        "node,x\r\na,1\r\nb,2\r\n",  # Windows
        "\ufeffnode,x\na,1\nb,2",  # a byte order mark, no last line end
        "\n\nnode,x\n\na,1\n\nb,2\n\n",  # blank lines
        'node , x\n"a", 1\n"b",2 \n',  # spaces and quotation marks
    ],
)
def test_the_ways_in_which_programs_write_csv_are_read(content, tmp_path):
    table = read(tmp_path, content)
    assert table.texts["node"] == ["a", "b"]
    assert table.numbers["x"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ("node,x\na,1\nb,oops\n", 3, "'oops'"),
        ("node,x\na,1\nb,\n", 3, "nothing"),
        ("node,x\na,nan\n", 2, "'nan'"),
        ("node,x\na,1\n\nb,inf\n", 4, "'inf'"),
        ("node,x\na,1\nb,2,3\n", 3, "2 values (node, x), got 3"),
        ("node,x\na,1\nb\n", 3, "got 1"),
        ('node,x\n"a\nb",1\nc,oops\n', 4, "'oops'"),
        ("node,x\n,1\n", 2, "a value in column 'node'"),
        ("node,y\na,cat\nb,1\n", 3, "'1'"),
        ("node,y\na,1\nb,dog\n", 3, "'dog'"),
        ("node,y\na,nan\nb,1\n", 2, "'nan'"),
        ("node,,x\na,1,2\n", 1, "column 2"),
        ("node,x,x\na,1,2\n", 1, "'x' twice"),
        ('node,x\na,"1\n', 2, "well-formed CSV"),
        ('node,x\na,"1"2\n', 2, "well-formed CSV"),
        ("node,x\na,1,5\n", 2, "got 3"),
        ("node,x\na,0x10\n", 2, "'0x10'"),
        ("node,x\na,1\nb,1_000\n", 3, "'1_000'"),
        ("node,x\na,1\nb,1_0.5e1_0\n", 3, "'1_0.5e1_0'"),
        ("node,y\na,1_000\nb,2\n", 2, "'1_000'"),
        ("node;x\na;1\n", 1, "separate the columns by commas"),
    ],
)
def test_every_mistake_is_answered_with_file_line_and_remedy(content, line, words, tmp_path):
    with pytest.raises(DataError) as caught:
        read(tmp_path, content, "node")
    message = str(caught.value)
    assert str(tmp_path / "nodes.csv") in message
    assert f"line {line}" in message
    assert words in message
    assert caught.value.remedy


def test_a_missing_column_is_named_beside_those_that_are_there(tmp_path):
    with pytest.raises(DataError, match=r"the columns 'source', 'target', got the columns 'node', 'x' in .*line 1"):
        read(tmp_path, "node,x\na,1\n", "source", "target")


def test_an_underscore_in_a_number_is_answered_with_how_to_write_it(tmp_path):
    with pytest.raises(DataError, match=r"without underscores \(1000\)"):
        read(tmp_path, "node,x\na,1_000\n")
    assert read(tmp_path, "node,x\na_1,1000\n").texts["node"] == ["a_1"]


def test_labels_that_may_be_blank_tell_where_they_are(tmp_path):
    table = read(tmp_path, "node,y,split\na,,\nb,3,train\nc,4,\n")
    assert table.blank.tolist() == [True, False, False]
    np.testing.assert_array_equal(table.numbers["y"], [0, 3, 4])
    assert table.numbers["y"].dtype == np.int64
    assert table.texts["split"] == ["", "train", ""]
    late = "node,y\n" + "a,\n" * 99 + "b,cat\n"
    assert read(tmp_path, late).texts["y"][-2:] == ["", "cat"]
    with pytest.raises(DataError, match="'dog' in .*line 102"):
        read(tmp_path, late.replace("cat", "1") + "c,dog\n")


@pytest.mark.parametrize("content", [b"node,x\na,1\nb\xe9,2\n", "node,x\na,1\n".encode("utf-16")])
def test_another_encoding_is_named(content, tmp_path):
    with pytest.raises(DataError, match=r"UTF-8 in .*nodes\.csv"):
        read(tmp_path, content)


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_an_empty_file_is_refused(content, tmp_path):
    with pytest.raises(DataError, match=r"got an empty file"):
        read(tmp_path, content)


def test_a_header_alone_is_refused_unless_it_may_be(tmp_path):
    with pytest.raises(DataError, match="only a header"):
        read(tmp_path, "node,x\n")
    table = read(tmp_path, "node,x\n", of_edges=True)
    assert table.rows == 0
    assert table.numbers["x"].shape == (0,)


def test_a_missing_file_and_a_folder_in_its_place_are_named(tmp_path):
    with pytest.raises(DataMissingError, match=r"nodes\.csv"):
        read_table(tmp_path / "nodes.csv")
    (tmp_path / "nodes.csv").mkdir()
    with pytest.raises(DataMissingError, match=r"nodes\.csv"):
        read_table(tmp_path / "nodes.csv")


def test_a_large_file_is_read_in_reasonable_time(tmp_path):
    rows = 50_000
    values = np.random.default_rng(0).normal(size=(rows, 3)).round(5).tolist()
    path = write(tmp_path, "node,x0,x1,x2\n" + "".join(f"{i},{a},{b},{c}\n" for i, (a, b, c) in enumerate(values)))
    start = time.process_time()
    table = read_table(path)
    assert time.process_time() - start < 10  # about 0.1 s on an idle core
    np.testing.assert_array_equal(np.stack([table.numbers[f"x{i}"] for i in range(3)], axis=1), values)


def test_several_targets_are_columns_with_names(tmp_path):
    table = read(tmp_path, "node,y:b,x,y:a\na,1,5,0.5\nb,2,5, \n")
    assert list(table.numbers) == ["x", "y"]
    np.testing.assert_equal(table.numbers["y"], [[1, 0.5], [2, np.nan]])
    assert read(tmp_path, "node,y:a,y:b\na,1,2\n").numbers["y"].dtype == np.int64
    assert read(tmp_path, "node,y:a\na,1\n").numbers["y"].shape == (1,)
    for content, match in (
        ("node,y,y:a\na,1,2\n", "either y or"),
        ("node,y:a\na,one\n", "number in column 'y:a'"),
        ("node,mol\na,m0\n", "ids are in columns graph, node"),
    ):
        with pytest.raises(DataError, match=match):
            read(tmp_path, content)

import gzip

import numpy as np
import pytest

from lrga.data.datasets.source import read_numbers
from lrga.errors import ChecksumError, DataError, DataMissingError


@pytest.fixture
def file(tmp_path):
    def write(text, name="edge.csv.gz"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        return path

    return write


def test_numbers_are_read_with_any_line_ends(file):
    numbers = np.random.default_rng(0).integers(-(10**12), 10**12, (50, 3))
    text = "\n".join(",".join(map(str, row)) for row in numbers)
    for ending in ("", "\n"):
        np.testing.assert_array_equal(read_numbers(file((text + ending).encode())), numbers)
    np.testing.assert_array_equal(read_numbers(file(text.replace("\n", "\r\n").encode()), rows=50, columns=3), numbers)


def test_real_numbers_and_uncompressed_files(file):
    values = read_numbers(file(b"1.5,-2e3\n0,7\n", "x.csv"), dtype=np.float32)
    assert values.dtype == np.float32
    assert values.tolist() == [[1.5, -2000.0], [0.0, 7.0]]


@pytest.mark.parametrize(
    "text", [b"1,2\n3\n", b"1,2\n3,4,5\n6\n", b"1,2\nx,4\n", b"1,2\n3,\n", b"1.5,2\n", b"1,2\n3 4,5\n"]
)
def test_lines_that_are_none_of_numbers_are_refused(file, text):
    with pytest.raises(DataError, match="edge.csv.gz"):
        read_numbers(file(text))


def test_a_number_that_is_not_finite_is_refused(file):
    with pytest.raises(DataError, match="not finite"):
        read_numbers(file(b"1,2\nnan,3\n"), dtype=np.float32)


@pytest.mark.parametrize("rows", [1, 3])
def test_another_number_of_rows_is_refused(file, rows):
    with pytest.raises(DataError, match="do not fit together"):
        read_numbers(file(b"1,2\n3,4\n"), rows=rows)


def test_truncated_foreign_empty_and_missing_files_are_refused(file, tmp_path):
    path = file(b"".join(b"%d,%d\n" % (i, i * 7) for i in range(5000)))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ChecksumError, match="complete gzip file"):
        read_numbers(path)
    path.write_bytes(b"1,2\n")
    with pytest.raises(ChecksumError, match="a complete gzip file"):
        read_numbers(path)
    path.write_bytes(b"")
    with pytest.raises(ChecksumError, match="an empty file"):
        read_numbers(path)
    with pytest.raises(DataMissingError, match="no such file"):
        read_numbers(tmp_path / "none.csv.gz")

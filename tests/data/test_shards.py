from pathlib import Path

import numpy as np
import pytest

from lrga.data.datasets.shards import Shard, make_shards
from lrga.errors import DataError, DTypeError, OptionError
from lrga.io.progress import silent


def image_shards(folder: Path, count: int, images: np.ndarray | None = None) -> list[Shard]:
    stack = folder / "images.npy"
    np.save(stack, np.zeros((count, 28, 28), np.uint8) if images is None else images)
    settings = {"limit": 75, "extra": 20, "compactness": 0.25}
    return [
        Shard(f"p{i}", "regions", {"images": str(stack), "first": i, "stop": i + 1, **settings}, 1, ("count",))
        for i in range(count)
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_shards_are_made_once_and_progress_counts_what_was_there(workers, tmp_path):
    pytest.importorskip("skimage")
    shards = image_shards(tmp_path, 4)
    made = make_shards(shards[:2], tmp_path / "work", workers=1, progress=silent, label="cutting")
    before = [path.stat().st_mtime_ns for path in made]
    seen = []
    paths = make_shards(
        shards, tmp_path / "work", workers=workers, progress=lambda *args: seen.append(args), label="cutting"
    )
    assert [path.name for path in paths] == ["p0.npz", "p1.npz", "p2.npz", "p3.npz"]
    assert [path.stat().st_mtime_ns for path in made] == before
    assert seen == [("cutting", 2, 4), ("cutting", 3, 4), ("cutting", 4, 4)]
    assert not list((tmp_path / "work").glob("*.tmp"))


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_shard_reaches_the_caller_as_it_was(workers, tmp_path):
    pytest.importorskip("skimage")
    shards = image_shards(tmp_path, 3, np.zeros((3, 28, 28), np.float32))
    with pytest.raises(DTypeError, match="float32"):
        make_shards(shards, tmp_path / "work", workers=workers, progress=silent, label="cutting")
    assert not list((tmp_path / "work").glob("*"))


def test_a_worker_that_dies_is_told_of(tmp_path, monkeypatch):
    monkeypatch.setattr("lrga.data.datasets.shards.sys.executable", "/bin/false")
    with pytest.raises(DataError, match="exit code 1"):
        make_shards(image_shards(tmp_path, 2), tmp_path / "work", workers=2, progress=silent, label="cutting")


def test_only_known_tasks_are_done(tmp_path):
    with pytest.raises(OptionError, match="os:system"):
        Shard("a", "os:system", {}, 1, ()).make(tmp_path)


def test_an_error_of_another_kind_in_a_worker_names_it(tmp_path):
    pytest.importorskip("skimage")
    shards = image_shards(tmp_path, 2)
    (tmp_path / "images.npy").unlink()
    with pytest.raises(DataError, match="FileNotFoundError"):
        make_shards(shards, tmp_path / "work", workers=2, progress=silent, label="cutting")

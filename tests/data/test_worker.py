import io
import json

import numpy as np
import pytest

from lrga.data.datasets.worker import serve


def request(folder, stack, name: str) -> str:
    arguments = {"images": str(stack), "first": 0, "stop": 1, "limit": 75, "extra": 20, "compactness": 0.25}
    return json.dumps({"name": name, "task": "regions", "arguments": arguments, "folder": str(folder)}) + "\n"


def test_every_request_gets_one_answer_and_an_error_does_not_end_the_service(tmp_path):
    pytest.importorskip("skimage")
    np.save(tmp_path / "images.npy", np.zeros((1, 28, 28), np.uint8))
    requests = request(tmp_path, tmp_path / "missing.npy", "a") + request(tmp_path, tmp_path / "images.npy", "b")
    answers = io.StringIO()
    serve(io.StringIO(requests), answers)
    first, second = (json.loads(line) for line in answers.getvalue().splitlines())
    assert first["name"] == "a"
    assert first["error"][0] == "FileNotFoundError"
    assert second == {"name": "b", "error": None}
    assert (tmp_path / "b.npz").is_file()
    assert not (tmp_path / "a.npz").exists()

"""The comparison of weights that two versions train."""

import shutil
from pathlib import Path

import pytest
import same_weights

SOURCE = Path(__file__).resolve().parents[2] / "src"


@pytest.mark.slow
def test_a_change_of_one_layer_is_seen_in_its_networks_alone(tmp_path):
    shutil.copytree(SOURCE, tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    layer = tmp_path / "src" / "lrga" / "nn" / "layers" / "gcn.py"
    text = layer.read_text(encoding="utf-8")
    layer.write_text(text.replace("h = sum_sources(", "h = 0.5 * sum_sources("), encoding="utf-8")
    assert layer.read_text(encoding="utf-8") != text
    ours, changed = (same_weights.trained_by(source, 8) for source in (SOURCE, tmp_path / "src"))
    assert len(set(ours.values())) == 12
    differ = {name for name in ours if ours[name] != changed[name]}
    assert differ == {f"{dataset}, {lrga}gcn" for dataset in ("PATTERN", "CLUSTER") for lrga in ("", "LRGA + ")}


def test_a_folder_without_lrga_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="src folder"):
        same_weights.trained_by(tmp_path, 8)

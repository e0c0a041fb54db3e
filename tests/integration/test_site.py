"""The documentation is built without a warning and needs no network to be read."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import lrga

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    # A proxy that is not there: whatever would ask the network fails.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "https_proxy": "http://127.0.0.1:9"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return out


def test_every_page_is_built_and_in_the_navigation(site):
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert pages <= {path.stem for path in site.glob("*.html")}
    listed = set(re.findall(r"(\w[\w-]*)\.md", yaml.dump(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])))
    assert pages == listed


def test_nothing_is_loaded_from_elsewhere(site):
    for path in site.rglob("*.html"):
        text = path.read_text()
        loaded = re.findall(r"<(?:script|img|iframe)[^>]*\bsrc=\"?([^\" >]+)", text)
        loaded += re.findall(r"<link[^>]*rel=\"?(?:stylesheet|preconnect|icon)[^>]*href=\"?([^\" >]+)", text)
        assert loaded
        assert not [target for target in loaded if target.startswith(("http:", "https:", "//"))], path.name


def test_the_reference_has_every_public_name_with_its_example(site):
    text = (site / "api.html").read_text()
    rooms = {name for name in lrga.__all__ if name.islower() and hasattr(getattr(lrga, name), "__path__")}
    for name in set(lrga.__all__) - rooms - {"__version__"}:
        assert f'id="lrga.{name}"' in text, name
    assert ":class:`" not in text
    assert "Examples:" in text


def test_the_drawings_say_what_they_show():
    for path in (ROOT / "docs" / "images").glob("*.svg"):
        assert "<title" in path.read_text() or "matplotlib" in path.read_text(), path.name

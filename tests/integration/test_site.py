"""The documentation is built without a warning, needs no network to be read, and works in a browser."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

import lrga
from lrga import errors
from lrga.cli.main import app
from tests.helpers.server import served

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


@pytest.fixture(scope="module")
def address(site):
    """The site on a local web server: browsers do not let a page from disk start the worker that searches."""
    with served(site) as found:
        yield found


@pytest.fixture
def visit(address, browser):
    """``visit(page, viewport)``: the page, opened; whatever the console reports fails the test."""
    complaints, open_pages = [], []

    def open_page(name, viewport):
        page = browser.new_page(viewport=viewport)
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "requestfailed", lambda request: complaints.append(request.url) if "ABORTED" not in request.failure else 0
        )
        page.goto(f"{address}/{name}")
        open_pages.append(page)
        return page

    yield open_page
    for page in open_pages:
        page.close()
    assert complaints == []


def test_every_page_is_built_and_in_the_navigation(site):
    pages = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.html")}
    assert pages <= built
    listed = set(re.findall(r"(\w[\w/-]*)\.md", yaml.dump(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])))
    assert pages == listed


def test_nothing_is_loaded_from_elsewhere(site):
    for path in site.rglob("*.html"):
        text = path.read_text()
        loaded = re.findall(r"<(?:script|img|iframe)[^>]*\bsrc=\"?([^\" >]+)", text)
        loaded += re.findall(r"<link[^>]*rel=\"?(?:stylesheet|preconnect|icon)[^>]*href=\"?([^\" >]+)", text)
        assert loaded
        assert not [target for target in loaded if target.startswith(("http:", "https:", "//"))], path.name


def test_the_reference_has_every_public_name_with_its_example(site):
    text = "".join(path.read_text() for path in (site / "reference").glob("*.html"))
    packages = [name for name in lrga.__all__ if hasattr(getattr(lrga, name), "__path__")]
    public = [f"lrga.{name}" for name in lrga.__all__ if name not in (*packages, "__version__", "errors")]
    for package in packages:
        module = getattr(lrga, package)
        inner = [name for name in getattr(module, "__all__", []) if not inspect.ismodule(getattr(module, name))]
        public += [f"lrga.{package}.{name}" for name in inner if not hasattr(lrga, name)]
    metrics = {f"lrga.tasks.{name}" for name in ("average_precision", "roc_auc")}  # described in lrga.tasks.metrics
    assert set(public) - metrics - set(re.findall(r'id="([\w.]+)"', text)) == set()
    assert ":class:`" not in text
    assert "Examples:" in text


def test_the_reference_has_every_command_option_and_error(site):
    page = (site / "reference" / "cli.html").read_text()
    for name, command in get_command(app).commands.items():
        for sub, inner in {"": command, **getattr(command, "commands", {})}.items():
            assert f'id="lrga-{name}{sub and "-"}{sub}"' in page
            for option in inner.params:
                assert option.opts[0] in page or not option.opts[0].startswith("--"), (name, sub, option.opts)
    page = (site / "reference" / "errors.html").read_text()
    classes = [one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, errors.LRGAError)]
    assert len(classes) > 15
    for value in classes:
        assert f'id="lrga.errors.{value.__name__}"' in page


def test_the_drawings_say_what_they_show():
    for path in (ROOT / "docs" / "images").glob("*.svg"):
        assert "<title" in path.read_text() or "matplotlib" in path.read_text(), path.name


def test_search_finds_the_rank(visit):
    page = visit("index.html", {"width": 1400, "height": 900})
    page.locator(".md-search__input").press_sequentially("rank")  # the search listens to keys, not to the value
    found = page.locator(".md-search-result__item")
    found.first.wait_for(timeout=60_000)
    assert "Choose the rank" in " ".join(found.all_inner_texts())


def test_no_page_scrolls_sideways_on_a_phone_or_reports_an_error(site, address, visit):
    names = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html") if path.name != "404.html")
    page = visit("index.html", {"width": 390, "height": 844})
    page.route("**/workers/*", lambda route: route.fulfill(body="", content_type="text/javascript"))  # the search
    wide = []
    for name in names:
        page.goto(f"{address}/{name}", wait_until="domcontentloaded")
        if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            wide.append(name)
    assert wide == []

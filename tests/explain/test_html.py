"""Pages are one file, and nothing in them was left unescaped; figures have one look."""

import json
import re
import sys

import matplotlib as mpl
import pytest

from lrga.errors import DataError, LRGAError, MissingDependencyError
from lrga.explain import html
from lrga.explain.style import plain, save_figure

NASTY = ["</script><script>alert(1)</script>", "<!--<script>", "\"'&<>", "\u2028\u2029", "\ud800", "日本\x00"]


def test_json_in_a_script_cannot_end_it_and_has_null_for_what_json_lacks():
    text = html.json_text({name: name for name in NASTY})
    assert not set("<>&\u2028\u2029") & set(text)
    back = json.loads(text)
    assert back[NASTY[0]] == NASTY[0]
    assert back[NASTY[2]] == NASTY[2]
    assert html.json_text([float("inf"), {"a": float("nan")}, (1,)]) == '[null,{"a":null},[1]]'


def test_the_bundle_stands_in_the_page_unbroken():
    page = html.render("base.html", scripts=("common.js", "table.js"), data={}, title=NASTY[0] + NASTY[1])
    assert "plotly.js v" in page
    assert page.count("</script>") == 4  # data, bundle, two scripts
    assert "<script>alert" not in page
    assert not re.search(r"""(src|href)=["'](?!data:,|#)""", page.split("</style>")[1].split("<script")[0])


def test_only_our_own_scripts_may_run():
    page = html.render("base.html", scripts=("common.js",), data={}, title="t")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.count("sha256-") == 2
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
    assert "connect-src &#39;none&#39;" in policy


def test_a_page_is_written_whole_or_refused_in_words(tmp_path):
    assert html.write_page(tmp_path / "new" / "a.html", "x").read_text() == "x"
    with pytest.raises(DataError, match="folder"):
        html.write_page(tmp_path, "x")
    (tmp_path / "file").write_text("")
    with pytest.raises(LRGAError, match="-o page.html"):
        html.write_page(tmp_path / "file" / "a.html", "x")


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    html.plotly_bundle.cache_clear()
    html._environment.cache_clear()
    for name in ("plotly.offline", "jinja2"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match=r"lrga\[report\]"):
        html.plotly_bundle()
    with pytest.raises(MissingDependencyError, match="jinja2"):
        html.render("base.html", scripts=(), data={})


def test_the_caller_s_settings_come_back(tmp_path):
    before, used = dict(mpl.rcParams), {}
    save_figure(tmp_path / "a.png", lambda figure: used.update(mpl.rcParams), width=2.0, height=2.0)
    assert used["pdf.fonttype"] == 42
    assert dict(mpl.rcParams) == before


def test_a_name_keeps_its_lines_and_loses_what_an_svg_may_not_hold():
    assert plain("a\nb\x01c\ud800 $x$ 日本") == "a\nb c  \\$x\\$ 日本"

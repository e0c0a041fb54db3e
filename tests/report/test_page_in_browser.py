"""The page of runs as a person meets it, in a real browser."""

import csv
import io
import json

import pytest

from lrga.experiments.cell import model_label
from lrga.experiments.loading import grouped_rows
from lrga.experiments.table import lrga_pairs
from lrga.paper.reference import THE_PAPER
from lrga.report.page import write_report

NASTY = "<script>window.hacked=1</script><b>bold</b>"


@pytest.fixture(scope="module")
def page_file(make_record, trained, tmp_path_factory):
    """Runs of two sets, two networks, several ranks and seeds; one that failed; one whose name is a script."""
    records = [
        make_record(f"{data}-{lrga}-{seed}", dataset=data, lrga=lrga, seed=seed, test=50.0 + 10 * lrga + seed / 10)
        for data in ("CLUSTER", "PATTERN") for lrga in (False, True) for seed in (41, 95)
    ]  # fmt: skip
    records += [make_record(f"rank-{rank}", rank=rank, hidden=16, test=50.0 + rank / 3) for rank in (0, 10, 20)]
    records.append(make_record(NASTY, dataset=NASTY, seed=5, reason=NASTY, environment=[{"gpu": NASTY}]))
    records.append(make_record("went wrong", status="diverged", reason="loss was NaN", seed=6, epochs=2))
    folder = tmp_path_factory.mktemp("records")
    for number, record in enumerate(records):
        (folder / f"{number}.json").write_text(json.dumps(record.to_json()), encoding="utf-8")
    (folder / "broken.json").write_text("{")
    path = tmp_path_factory.mktemp("page") / "page.html"
    return path, write_report([folder, trained], path, title=NASTY)


@pytest.fixture
def page(page_file, open_page):
    """The page, opened once; every test finds its filters empty."""
    opened = open_page(page_file[0])
    opened.evaluate(
        """() => {
            for (const box of document.querySelectorAll("#curves input")) box.checked = box.dataset.split === "val";
            for (const control of document.querySelectorAll("[data-choice], [data-filter], #quantity")) {
                control.value = control.id === "quantity" ? "metric" : "";
                control.dispatchEvent(new Event(control.tagName === "SELECT" ? "change" : "input"));
            }
        }"""
    )
    yield opened
    assert opened.complaints == []


def column(page, table, heading):
    """Texts of a column of the rows that are shown, in their order."""
    return page.evaluate(
        """([id, heading]) => {
            const table = document.getElementById(id);
            const at = [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent === heading);
            return [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.cells[at].textContent);
        }""",
        [table, heading],
    )


def traces(page, chart):
    return page.evaluate(
        "(id) => document.getElementById(id).data.map((t) => ({name: t.name, x: [...t.x], y: [...t.y], "
        "error: t.error_x && [...t.error_x.array]}))",
        chart,
    )


def test_it_opens_without_network_or_complaint_and_shows_python_s_numbers(page, page_file, keep_screenshot):
    path, found = page_file
    cells = [cell for cell in grouped_rows(found.runs, THE_PAPER) if cell.cell.labels["dataset"] == "CLUSTER"]
    ours, paper = traces(page, page.get_by_role("img", name="Results on CLUSTER").get_attribute("id"))
    assert ours["x"] == pytest.approx([cell.spread().mean for cell in cells])
    assert ours["error"] == pytest.approx([cell.spread().std or 0.0 for cell in cells])
    published = [cell.cell.published for cell in cells if cell.cell.published is not None]
    assert paper["x"] == pytest.approx([cell.mean for cell in published])
    assert paper["error"] == pytest.approx([cell.std for cell in published])
    shown = dict(zip(column(page, "cells", "network"), column(page, "cells", "ours"), strict=True))
    assert shown["LRGA + GCN 100K"] == "66.80 ± 3.82"  # seeds 41 and 95: 64.1 and 69.5
    rank = traces(page, "rank-chart")
    assert rank[0]["x"] == [0, 10, 20]
    assert rank[0]["y"] == pytest.approx([50.0, 50 + 10 / 3, 50 + 20 / 3])
    assert "loss was NaN" in page.inner_text("#failed")
    assert "broken.json" in page.inner_text("#failed")
    keep_screenshot(page, "report", full_page=True)
    assert page.asked == [path.as_uri()]
    buttons = page.evaluate("[...document.querySelectorAll('.modebar-btn')].map((button) => button.dataset.title)")
    assert any("PNG" in title for title in buttons)
    assert not [title for title in buttons if "share" in title.lower() or "cloud" in title.lower()]
    assert page.evaluate("[...document.querySelectorAll('[id]')].length") == page.evaluate(
        "new Set([...document.querySelectorAll('[id]')].map((e) => e.id)).size"
    )


def test_it_opens_on_what_was_run_the_best_result_and_what_lrga_changes(page, page_file):
    assert page.evaluate("document.querySelector('main section').id") == "summary"
    cards = dict(
        page.evaluate(
            "[...document.querySelectorAll('#summary .card')].map((card) => [card.querySelector('h3').textContent, "
            "card.innerText])"
        )
    )
    assert f"{len(page_file[1].runs)} runs" in cards["What was run"]
    assert "seeds\n5, 6, 7, 41, 95" in cards["What was run"]
    assert "66.80 ± 3.82" in cards["Best on CLUSTER"]
    assert "LRGA + GCN 100K" in cards["Best on CLUSTER"]
    pairs = page_file[1]
    clear = [pair for pair in lrga_pairs(grouped_rows(pairs.runs, THE_PAPER)) if pair.difference.verdict == "better"]
    assert f"{len(clear)} of 2" in cards["What LRGA changes"]
    assert column(page, "gains", "data set") == ["CLUSTER", "PATTERN"]
    assert column(page, "gains", "difference") == ["+10.00", "+10.00"]
    assert column(page, "gains", "verdict") == ["better", "better"]
    page.locator("#gains th button", has_text="data set").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert column(page, "gains", "data set") == ["PATTERN", "CLUSTER"]
    page.evaluate("window.scrollTo(0, 0)")
    assert page.evaluate("document.getElementById('gains').getBoundingClientRect().top < innerHeight")


def test_a_name_that_is_a_script_stays_text(page):
    assert page.evaluate("window.hacked") is None
    assert page.title() == NASTY
    assert page.inner_text("h1") == NASTY
    assert NASTY in column(page, "run-table", "run")
    assert page.evaluate("document.querySelectorAll('main b').length") == 0
    legend = page.evaluate("[...document.querySelectorAll('#curves-chart .legendtext')].map((t) => t.textContent)")
    assert any(NASTY in text for text in legend)


def test_the_table_sorts_by_click_and_by_key(page, page_file):
    button = page.locator("#run-table th button", has_text="test").first
    button.click()
    rising = [float(text) for text in column(page, "run-table", "test") if text]
    assert rising == sorted(rising)
    assert page.locator("#run-table th[aria-sort=ascending]").inner_text().strip() == "test"
    button.focus()
    page.keyboard.press("Enter")
    falling = [float(text) for text in column(page, "run-table", "test") if text]
    assert falling == sorted(rising, reverse=True)
    assert len(falling) == len(page_file[1].runs)
    page.locator("#run-table th button", has_text="data set").click()
    names = column(page, "run-table", "data set")
    assert names.index("CLUSTER") < names.index("PATTERN")


def test_filters_hold_for_curves_and_table(page, page_file):
    found = page_file[1]
    page.select_option("[data-choice=dataset]", "CLUSTER")
    page.select_option("[data-choice=model]", "GCN")
    expected = sorted(
        run.name for run in found.runs if (run.config.data.name, model_label(run.config)) == ("CLUSTER", "GCN")
    )
    assert sorted(column(page, "run-table", "run")) == expected
    drawn = traces(page, "curves-chart")
    assert len(drawn) == len(expected)
    by_last = sorted(trace["y"][-1] for trace in drawn)
    chosen = [run for run in found.runs if run.name in expected]
    assert by_last == pytest.approx(sorted(run.record.curve["val_metric"][-1] for run in chosen))
    page.select_option("[data-choice=seed]", "95")
    assert column(page, "run-table", "run") == ["CLUSTER-False-95"]
    page.check("[data-split=train]")
    assert len(traces(page, "curves-chart")) == 2
    page.select_option("#quantity", "loss")
    page.check("#log-x")
    page.check("#log-y")
    types = page.evaluate("['xaxis', 'yaxis'].map((a) => document.getElementById('curves-chart').layout[a].type)")
    assert types == ["log", "log"]
    for choice in ("dataset", "model", "seed"):
        page.select_option(f"[data-choice={choice}]", "")
    page.fill("[data-filter=run-table]", "PATTERN 95")
    assert sorted(column(page, "run-table", "run")) == ["PATTERN-False-95", "PATTERN-True-95"]
    assert "2 of" in page.inner_text("#run-table-said")


def test_hover_shows_the_values(page):
    page.select_option("[data-choice=dataset]", "PATTERN")
    page.select_option("[data-choice=seed]", "95")
    page.select_option("[data-choice=model]", "LRGA + GCN")
    page.locator("#curves-chart").scroll_into_view_if_needed()
    page.evaluate("Plotly.Fx.hover('curves-chart', [{curveNumber: 0, pointNumber: 4}])")
    text = page.locator("#curves-chart .hovertext").first.text_content()
    assert "PATTERN-True-95" in text
    assert "epoch 5: 69.5" in text


def test_the_table_is_copied_as_markdown_latex_and_csv(page):
    names = column(page, "run-table", "run")

    def copied(form):
        page.click(f"[data-table=run-table][data-copy={form}]")
        page.wait_for_function("() => document.getElementById('run-table-said').textContent.includes('copied')")
        return page.input_value("#copied-text")

    lines = copied("markdown").splitlines()
    assert lines[0].startswith("| run | data set | model |")
    assert len(lines) == 2 + len(names)
    assert any("\\<script\\>" in line for line in lines)
    latex = copied("latex")
    assert latex.startswith("\\begin{tabular}{llll")
    assert "\\textless{}script\\textgreater{}" in latex
    assert "$\\kappa$" in latex
    page.wait_for_timeout(50)
    rows = list(csv.reader(io.StringIO(copied("csv"))))
    assert [row[0] for row in rows[1:]] == names
    assert all(len(row) == 14 for row in rows)
    page.fill("[data-filter=run-table]", "rank-")
    assert len(list(csv.reader(io.StringIO(copied("csv"))))) == 1 + 3


def test_what_markdown_and_latex_read_as_more_than_text_is_escaped(page):
    cells = ["[a](b) & $x$ ~", "*two\n\nlines*", "a|b"]
    table = {"head": ["x", "y", "z"], "rows": [cells], "numeric": [False] * 3}
    form = {
        name: page.evaluate(f"(t) => LRGA.tables.formats.{name}(t)", table) for name in ("markdown", "latex", "csv")
    }
    assert form["markdown"].splitlines()[2] == r"| \[a\](b) \& \$x\$ \~ | \*two lines\* | a\|b |"
    row = r"{[}a](b) \& \$x\$ \textasciitilde{} & {*}two lines{*} & a\textbar{}b \\"
    assert form["latex"].splitlines()[4] == row
    assert list(csv.reader(io.StringIO(form["csv"])))[1] == cells


def test_configuration_and_environment_open_from_the_table(page):
    page.fill("[data-filter=run-table]", "cluster-run")
    page.click("#run-table a:visible")
    opened = page.locator("details[open]")
    opened.first.wait_for()  # the event of the new hash follows the click
    assert opened.count() == 1
    text = opened.inner_text()
    for fact in ("attention_heads", "weight_decay", "cpu_threads", "sizes=[12, 4, 4]", "torch="):
        assert fact in text
    opened.locator("summary").click()
    assert opened.count() == 0
    page.click("#run-table a:visible")  # the same link once more, which changes no address
    assert opened.count() == 1


OVERLAP = """() => [...document.querySelectorAll(".js-plotly-plot")].filter((chart) => {
    const [bar, legend] = [".modebar", ".legend"].map((name) => chart.querySelector(name)?.getBoundingClientRect());
    return bar && legend && bar.left < legend.right && legend.left < bar.right && bar.top < legend.bottom
        && legend.top < bar.bottom;
}).map((chart) => chart.id)"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_holds_it_in_dark_and_light(page_file, open_page, keep_screenshot, scheme):
    page = open_page(page_file[0], width=375, height=812, color_scheme=scheme, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    wide = page.evaluate(
        "[...document.querySelectorAll('table')].filter((t) => t.scrollWidth > 375 && t.parentElement.scrollWidth > "
        "t.parentElement.clientWidth).map((t) => t.id)"
    )
    assert set(wide) == {"gains", "cells", "run-table"}  # they scroll inside their own boxes
    assert page.evaluate("document.getElementById('summary').getBoundingClientRect().top") < 812
    back, text = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
        ".map((c) => c.match(/\\d+/g).slice(0, 3).reduce((sum, v) => sum + Number(v), 0))"
    )
    assert (back < text) == (scheme == "dark")
    assert page.evaluate("document.querySelectorAll('.js-plotly-plot .legend').length") > 0
    assert page.evaluate(OVERLAP) == []  # no toolbar lies over a legend
    font = page.evaluate("document.getElementById('curves-chart')._fullLayout.font.color")
    keep_screenshot(page, f"report-375-{scheme}")
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") != scheme
    assert page.evaluate("document.getElementById('curves-chart')._fullLayout.font.color") != font
    assert page.complaints == []


def test_everything_is_reached_by_keyboard(page):
    page.evaluate("document.activeElement.blur(), window.scrollTo(0, 0)")
    page.focus("#theme")
    reached = set()
    for _ in range(110):
        reached.add(page.evaluate(
            "(() => { const e = document.activeElement; return e.id || e.dataset.choice || e.dataset.filter || "
            "(e.dataset.copy && `${e.dataset.table} ${e.dataset.copy}`) || e.textContent.slice(0, 20); })()"
        ))  # fmt: skip
        page.keyboard.press("Tab")
    controls = {"theme", "dataset", "model", "seed", "quantity", "log-x", "log-y", "cells csv"}
    assert controls | {"Summary", "verdict"} <= reached  # links of the sections, headings that sort


def test_the_tables_are_whole_at_1400_pixels_and_in_print(page_file, open_page):
    page = open_page(page_file[0], width=1400, color_scheme="dark")
    for table in ("gains", "cells"):
        frame, whole = page.evaluate(
            "(id) => [document.getElementById(id).parentElement.clientWidth, document.getElementById(id).scrollWidth]",
            table,
        )
        assert whole <= frame
    page.emulate_media(media="print")
    assert page.locator("#filters").is_hidden()
    assert page.evaluate("getComputedStyle(document.querySelector('#runs .scroll')).overflow") == "visible"
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.pdf(format="A4")[:4] == b"%PDF"

"""The explorer as a person meets it: choose, click, read the numbers, compare them with Python's."""

from dataclasses import replace

import numpy as np
import pytest

from lrga.explain.attention import Explanation, LayerFactors
from lrga.explain.attention_picture import order_of, shown_matrix
from lrga.explain.explorer import explorer_page, write_explorer
from lrga.tasks import Task


@pytest.fixture(scope="module")
def explored(trained, tmp_path_factory):
    path = tmp_path_factory.mktemp("explorer") / "page.html"
    return path, write_explorer(trained, path, graph=1)


@pytest.fixture
def show(open_page, tmp_path):
    """``show(explanation)``: its page, opened, which has nothing to complain of at the end."""
    shown = []

    def write_and_open(found):
        (tmp_path / "page.html").write_text(explorer_page(found), encoding="utf-8")
        shown.append(open_page(tmp_path / "page.html"))
        return shown[-1]

    yield write_and_open
    assert all(page.complaints == [] for page in shown)


@pytest.fixture
def page(explored, open_page):
    """The page, opened once; every test finds the last layer, its first head and the attention as colours."""
    opened = open_page(explored[0])
    for control, value in (("#layer", "1"), ("#head", "0"), ("#colour", "attention")):
        if opened.input_value(control) != value:
            opened.select_option(control, value)
    yield opened
    assert opened.complaints == []


def strongest(page):
    """``(node, value)`` of the rows of the table, in full precision."""
    rows = page.evaluate(
        "[...document.querySelectorAll('#strongest tbody tr')].map((r) => [r.dataset.node, r.cells[1].dataset.value])"
    )
    return [(int(node), float(value)) for node, value in rows]


def check_row(page, weights):
    shown = strongest(page)
    for node, value in shown:
        assert value == pytest.approx(weights[node], rel=1e-12, abs=1e-300)
    assert [value for _, value in shown] == sorted((value for _, value in shown), reverse=True)
    assert shown[0][1] == pytest.approx(weights.max(), rel=1e-12)


def click_node(page, node):
    """Clicks where the node is drawn."""
    at = page.evaluate(
        """(i) => {
            const plot = document.getElementById("graph");
            plot.scrollIntoView({block: "center"});
            const trace = plot.data.find((t) => t.customdata);
            const {xaxis, yaxis} = plot._fullLayout;
            const box = plot.getBoundingClientRect();
            return [box.left + xaxis._offset + xaxis.d2p(trace.x[i]), box.top + yaxis._offset + yaxis.d2p(trace.y[i])];
        }""",
        node,
    )
    for _ in range(10):  # Plotly must have noticed the pointer before it is pressed, which a busy machine delays
        page.mouse.move(at[0] + 1, at[1])
        page.mouse.move(*at)
        page.wait_for_timeout(150)
        page.mouse.click(*at)
        settle(page)
        if page.input_value("#node") == str(node):
            return
    raise AssertionError(f"no click reached node {node}")


def choose(page, node):
    page.fill("#node", str(node))
    page.press("#node", "Enter")


def settle(page):
    """Lets the drawing that a choice asked for happen."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_a_click_on_a_node_shows_whom_it_attends_to(page, explored, keep_screenshot):
    path, found = explored
    for node in (5, found.num_nodes - 1):
        click_node(page, node)
        check_row(page, found.layers[1].row(node, 0))  # the last layer is shown first
    page.select_option("#layer", index=0)
    page.select_option("#head", index=1)
    weights = found.layers[0].row(found.num_nodes - 1, 1)
    check_row(page, weights)
    page.fill("#target", "3")
    assert float(page.inner_text("#value")) == pytest.approx(weights[3], rel=1e-12, abs=1e-300)
    facts = page.inner_text("#chosen")
    assert f"{weights.sum():.6g}"[:6] in facts.replace("\n", " ")
    settle(page)
    colours = page.evaluate("[...document.getElementById('graph').data.find((t) => t.customdata).marker.color]")
    assert colours == pytest.approx(weights.tolist(), rel=1e-12, abs=1e-300)
    keep_screenshot(page, "explorer", full_page=True)
    assert page.asked == [path.as_uri()]


def test_the_strongest_links_are_drawn(page, explored):
    found = explored[1]
    choose(page, 2)
    page.fill("#links", "4")
    page.press("#links", "Enter")
    settle(page)
    ends = page.evaluate(
        "(() => { const d = document.getElementById('graph').data; return [...d[d.length - 2].x]; })()"
    )
    best = [node for node, _ in strongest(page)[:4]]
    assert ends[1::3] == pytest.approx(found.places[best, 0].tolist())
    assert ends[0::3] == pytest.approx([float(found.places[2, 0])] * 4)


@pytest.mark.parametrize("order", ["community", "degree", "prediction", "label"])
def test_the_matrix_is_python_s_in_every_order(page, explored, order):
    found = explored[1]
    page.select_option("#order", order)
    shown = np.array(page.evaluate("document.getElementById('matrix').data[0].z.map((row) => [...row])"))
    expected = shown_matrix(found.layers[1], 0, order_of(found, order))
    np.testing.assert_allclose(shown, expected, rtol=1e-9)


def test_labels_predictions_and_the_spectrum_are_python_s(page, explored):
    found = explored[1]
    for choice, values in (("label", found.labels), ("prediction", found.predictions)):
        page.select_option("#colour", choice)
        settle(page)
        colours = page.evaluate("document.getElementById('graph').data.find((t) => t.customdata).marker.color")
        assert len({(c, v) for c, v in zip(colours, values.tolist(), strict=True)}) == len(set(values.tolist()))
    hover = page.evaluate(
        "document.getElementById('graph').data.find((t) => t.customdata).customdata.map((d) => [d[2], d[3]])"
    )
    assert hover == [[str(a), str(b)] for a, b in zip(found.labels, found.predictions, strict=True)]
    page.uncheck("#log-spectrum")
    shown = page.evaluate("document.getElementById('spectrum').data[0].y")
    assert shown == pytest.approx(found.layers[1].spectrum(0).tolist())


def test_the_pointer_on_the_matrix_names_its_nodes_and_the_exact_value(page, explored):
    found = explored[1]
    page.select_option("#order", "degree")
    at = page.evaluate(
        """() => {
            const plot = document.getElementById("matrix");
            plot.scrollIntoView({block: "center"});
            const {xaxis, yaxis} = plot._fullLayout;
            const box = plot.getBoundingClientRect();
            return [box.left + xaxis._offset + xaxis.d2p(5), box.top + yaxis._offset + yaxis.d2p(3)];
        }"""
    )
    page.mouse.move(at[0] - 40, at[1] + 40)
    page.wait_for_timeout(200)
    page.mouse.move(*at)
    page.wait_for_timeout(400)
    i, j = (int(order_of(found, "degree")[place]) for place in (3, 5))
    words, _, value = page.inner_text("#matrix-value").partition(": ")
    assert words == f"Node {i} to node {j}"
    assert float(value) == pytest.approx(found.layers[1].row(i, 0)[j], rel=1e-12, abs=1e-300)


def test_the_colours_of_classes_are_named(page, explored):
    page.select_option("#colour", "label")
    names = page.locator("#key").inner_text()
    assert all(f"● {number}" in names for number in range(explored[1].task.out_channels))
    page.select_option("#colour", "right")
    assert page.locator("#key").inner_text().split() == ["●", "right", "●", "wrong"]
    page.select_option("#colour", "attention")
    assert page.locator("#key").inner_text() == ""


def test_a_narrow_dark_screen_holds_it(explored, open_page, keep_screenshot):
    page = open_page(explored[0], width=400, height=800, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.click("#theme")
    keep_screenshot(page, "explorer-400")
    assert page.complaints == []


def large(nodes, rank=30):
    """A graph too large to be trained in a test, with factors of its size."""
    random = np.random.default_rng(0)
    u, v = random.random((2, nodes, 1, rank)).astype(np.float32) / nodes
    edges = np.sort(random.integers(0, nodes, (nodes, 2)), axis=1).astype(np.int32)
    edges = np.unique(edges[edges[:, 0] != edges[:, 1]], axis=0)
    labels = random.integers(0, 4, nodes).astype(np.int32)
    return Explanation(
        run="large", dataset="own", split="test", graph=0, graph_id=None, node_ids=None,
        task=Task(level="node", kind="classification", out_channels=4),
        edges=edges, labels=labels, predictions=labels[::-1].copy(), confidence=random.random(nodes, dtype=np.float32),
        places=random.random((nodes, 2), dtype=np.float32),
        degree=np.bincount(edges.ravel(), minlength=nodes).astype(np.int32), community=labels,
        layers=[LayerFactors("only", u, v)],
    )  # fmt: skip


@pytest.mark.parametrize("nodes", [2_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_thousands_of_nodes_are_walked_about_in(show, keep_screenshot, nodes):
    found = large(nodes)
    page = show(found)
    for node in (17, nodes - 1):
        choose(page, node)
        check_row(page, found.layers[0].row(node))
    shown = page.evaluate("document.getElementById('matrix').data[0].z.map((row) => [...row.slice(0, 5)])")
    expected = shown_matrix(found.layers[0], 0, order_of(found, "community"))
    np.testing.assert_allclose(np.array(shown), expected[:, :5], rtol=1e-9)
    assert "500 × 500 blocks" in page.inner_text("#matrix-said")
    keep_screenshot(page, f"explorer-{nodes}")


def test_names_stay_text_and_no_link_is_drawn_to_a_node_that_is_not_attended_to(explored, show):
    nasty = "<script>window.hacked=1</script><b>x</b>"
    u, v = (np.zeros((explored[1].num_nodes, 1, 1), dtype=np.float32) for _ in range(2))
    u[:2], v[7] = 1.0, 2.0  # nodes 0 and 1 attend to node 7 alone, all others to none
    names = {"node_ids": [nasty] * len(u), "graph_id": nasty, "run": nasty}
    found = replace(explored[1], layers=[LayerFactors("only", u, v)], **names)
    page = show(found)
    for node, ends, words in ((1, 1, "strongest to 7"), (2, 0, "attends to no node.")):
        choose(page, node)
        settle(page)
        drawn = page.evaluate("document.getElementById('graph').data.at(-2).x.length")
        assert drawn == 3 * ends
        assert words in page.inner_text("#said")
    assert page.evaluate("window.hacked") is None
    assert nasty in page.inner_text("#chosen")
    assert page.evaluate("document.querySelectorAll('main b').length") == 0
    page.evaluate("Plotly.Fx.hover('graph', [{curveNumber: 1, pointNumber: 0}])")
    assert nasty in page.locator("#graph .hovertext").first.text_content()


def test_edges_are_coloured_where_they_are_what_is_predicted(explored, show):
    base = explored[1]
    labels = (np.arange(len(base.edges)) % 2).astype(np.int32)
    ones, task = np.ones_like(labels), Task(level="edge", kind="classification", out_channels=2)
    found = replace(base, task=task, labels=labels, predictions=ones, confidence=ones.astype(np.float32))
    page = show(found)
    names = page.evaluate("document.getElementById('graph').data.filter((t) => t.showlegend).map((t) => t.name)")
    assert sorted(names) == ["predicted 1, label 0", "predicted 1, right"]


@pytest.mark.parametrize(
    "case", [pytest.param("graph regression", marks=pytest.mark.slow), "node regression", "two nodes"]
)
def test_other_tasks_and_tiny_graphs_are_shown(explored, show, case):
    base = explored[1]
    values = np.linspace(-1, 1, base.num_nodes).astype(np.float32)
    found = {
        "graph regression": replace(
            base, task=Task(level="graph", kind="regression", out_channels=1), labels=values[:1],
            predictions=values[1:2], confidence=None,
        ),
        "node regression": replace(
            base, task=Task(level="node", kind="regression", out_channels=1), labels=values,
            predictions=values[::-1].copy(), confidence=None,
        ),
        "two nodes": replace(
            base, edges=base.edges[:0], labels=None, predictions=base.predictions[:2], confidence=base.confidence[:2],
            places=base.places[:2], degree=base.degree[:2], community=base.community[:2],
            layers=[LayerFactors("l", layer.u[:2] * 0, layer.v[:2]) for layer in base.layers],
        ),
    }[case]  # fmt: skip
    page = show(found)
    choose(page, 1)
    check_row(page, found.layers[1].row(1))
    for choice in page.evaluate("[...document.getElementById('colour').options].map((o) => o.value)"):
        page.select_option("#colour", choice)
    for choice in page.evaluate("[...document.getElementById('order').options].map((o) => o.value)"):
        page.select_option("#order", choice)
    page.check("#log-matrix")
    told = page.inner_text("main > p")
    assert ("label -1 · prediction -0.9" in told) == (case == "graph regression")

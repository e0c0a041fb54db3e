// The report page: charts, and the filters of curves and table.
"use strict";
(() => {
  const { data, label, colour, draw } = LRGA;
  for (const [id, figure] of Object.entries(data.charts)) draw(id, figure.data, figure.layout);

  const runTable = document.getElementById("run-table");
  const cellTable = document.getElementById("cells");
  const selects = [...document.querySelectorAll("[data-choice]")];
  const choices = () => Object.fromEntries(selects.map((select) => [select.dataset.choice, select.value]));
  const checked = (id) => document.getElementById(id).checked;
  const splits = { train: "dot", val: "solid", test: "dash" };
  const words = { train: "training", val: "validation", test: "test" };

  const short = (text) => (text.length > 60 ? `${text.slice(0, 58)} …` : text);

  function columns(quantity) {
    if (quantity === "lr") return [["lr", "learning rate", "solid"]];
    if (quantity.startsWith("logged:")) return [[quantity.slice(7), label(quantity.slice(7)), "solid"]];
    return Object.keys(splits)
      .filter((split) => document.querySelector(`[data-split="${split}"]`).checked)
      .map((split) => [`${split}_${quantity}`, words[split], splits[split]]);
  }

  function curves() {
    const wanted = choices();
    const fits = (run) => Object.entries(wanted).every(([key, value]) => !value || String(run[key]) === value);
    const runs = data.runs.filter((run) => run.curve.epoch && fits(run));
    const quantity = document.getElementById("quantity").value;
    const traces = [];
    const cells = new Set(runs.map((run) => run.cell));
    const named = new Set();
    for (const run of runs) {
      for (const [column, split, dash] of columns(quantity)) {
        if (!run.curve[column]) continue;
        traces.push({
          type: "scatter", mode: run.curve.epoch.length > 1 ? "lines" : "markers",
          x: run.curve.epoch, y: run.curve[column], connectgaps: true, name: label(short(data.cells[run.cell])), legendgroup: run.cell,
          showlegend: cells.size <= 12 && !named.has(run.cell),
          line: { color: colour(run.cell), dash, width: 1.6 }, marker: { color: colour(run.cell) },
          customdata: run.curve.epoch.map(() => [label(run.name), label(run.dataset), label(run.model), run.seed, split]),
          hovertemplate: "%{customdata[0]}<br>%{customdata[1]}, %{customdata[2]}, seed %{customdata[3]}"
            + "<br>epoch %{x}: %{y} (%{customdata[4]})<extra></extra>",
        });
        named.add(run.cell);
      }
    }
    const metrics = [...new Set(runs.map((run) => run.metric).filter(Boolean))];
    const titles = { metric: metrics.join(", "), loss: "loss", lr: "learning rate" };
    draw("curves-chart", traces, {
      xaxis: { title: { text: "epoch" }, type: checked("log-x") ? "log" : "linear" },
      yaxis: { title: { text: titles[quantity] ?? label(quantity.slice(7)) }, type: checked("log-y") ? "log" : "linear" },
      legend: { orientation: "h", x: 0, y: -0.13, yanchor: "top" }, hovermode: "closest", showlegend: cells.size <= 12,
      uirevision: JSON.stringify([wanted, quantity, checked("log-x"), checked("log-y")]),
    });
    document.getElementById("curves-said").textContent = `${runs.length} of ${data.runs.length} runs; one colour for each network`
      + (data.runs.some((run) => (run.curve.epoch || []).length === data.points) ? `; at most ${data.points} epochs of each are drawn.` : ".");
  }

  function refresh() {
    curves();
    if (runTable) LRGA.tables.filter(runTable, choices());
  }

  if (document.getElementById("curves-chart")) {
    for (const control of document.querySelectorAll("#curves select, #curves input")) {
      control.addEventListener("change", refresh);
    }
    curves();
  }
  for (const [table, extra] of [[runTable, choices], [cellTable, () => ({})]]) {
    if (!table) continue;
    const input = document.querySelector(`[data-filter="${table.id}"]`);
    input.addEventListener("input", () => LRGA.tables.filter(table, extra()));
  }

  // A link to a run opens its configuration, also one that was followed before and closed by hand.
  const open = (hash) => {
    const target = hash.startsWith("#run-") && document.getElementById(hash.slice(1));
    if (target) target.open = true;
  };
  document.addEventListener("click", (event) => open(event.target.closest("a")?.hash || ""));
  window.addEventListener("hashchange", () => open(location.hash));
  open(location.hash);
})();

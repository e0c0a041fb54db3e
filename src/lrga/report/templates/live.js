// The curves of a run that trains: asks for what is new once a second.
"use strict";
(() => {
  const { data, colour, draw } = LRGA;
  const epochs = [];
  const byId = (id) => document.getElementById(id);
  const splits = [["train", "training", "dot"], ["val", "validation", "solid"], ["test", "test", "dash"]];

  function lines(kind) {
    return splits.map(([split, name, dash], i) => ({
      type: "scatter", mode: epochs.length > 1 ? "lines" : "markers", name, x: epochs.map((e) => e.epoch),
      y: epochs.map((e) => e[`${split}_${kind}`]), line: { color: colour(i), dash }, hovertemplate: "epoch %{x}: %{y}",
    }));
  }

  const single = (column) => [{
    type: "scatter", mode: epochs.length > 1 ? "lines" : "markers", x: epochs.map((e) => e.epoch), y: epochs.map((e) => e[column]),
    line: { color: colour(0) }, hovertemplate: "epoch %{x}: %{y}<extra></extra>",
  }];

  function refresh() {
    const xaxis = { title: { text: "epoch" }, type: byId("log-x").checked ? "log" : "linear" };
    draw("metric", lines("metric"), { xaxis, yaxis: { title: { text: data.metric } }, showlegend: true, uirevision: "live" });
    draw("loss", lines("loss"), { xaxis, yaxis: { type: byId("log-y").checked ? "log" : "linear" }, showlegend: true, uirevision: "live" });
    draw("rate", single("lr"), { xaxis, yaxis: { type: "log" }, uirevision: "live" });
    draw("seconds", single("seconds"), { xaxis, yaxis: { rangemode: "tozero" }, uirevision: "live" });
  }

  async function ask() {
    const last = epochs.length ? epochs[epochs.length - 1].epoch : 0;
    let state;
    try {
      state = await (await fetch(`state?after=${last}`)).json();
    } catch {
      byId("said").textContent += " (the run has ended or cannot be reached; the curves stay)";
      return;
    }
    if (state.epochs.length) {
      epochs.push(...state.epochs);
      refresh();
    }
    byId("said").textContent = `${state.status}: epoch ${state.epoch} of at most ${data.max_epochs}, batch ${state.batch} of ${state.batches}`;
    if (!state.over) setTimeout(ask, 1000);
  }

  byId("log-x").addEventListener("change", refresh);
  byId("log-y").addEventListener("change", refresh);
  refresh();
  ask();
})();

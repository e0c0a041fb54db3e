// The explorer: a graph, a chosen node, and the nodes it attends to.
"use strict";
(() => {
  const { data, label, colour, css, draw } = LRGA;
  const { numbers, row, matrix } = LRGA.attention;
  const n = data.nodes;
  const byId = (id) => document.getElementById(id);
  const places = numbers(data.places, Float32Array);
  const edges = numbers(data.edges, Int32Array);
  const ends = numbers(data.neighbours, Int32Array);
  const kind = data.classes ? Int32Array : Float32Array;
  const facts = {
    degree: numbers(data.degree, Int32Array), community: numbers(data.community, Int32Array),
    label: data.labels && numbers(data.labels, kind), prediction: numbers(data.predictions, kind),
    confidence: data.confidence && numbers(data.confidence, Float32Array),
  };
  const ofNodes = data.level === "node";
  const large = data.webgl && !!document.createElement("canvas").getContext("webgl");
  const points = large ? "scattergl" : "scatter";
  const name = (i) => (data.ids && data.ids[i] !== String(i) ? `${i} (${data.ids[i]})` : String(i));
  const answer = (values, i) => (!values ? "" : data.classes ? data.classes[values[i]] : values[i].toPrecision(5));
  const state = { layer: data.layers.length - 1, head: 0, node: 0, weights: new Float64Array(n) };
  const layer = () => data.layers[state.layer];
  const head = () => layer().heads[state.head];
  const xs = new Float32Array(n), ys = new Float32Array(n);
  for (let i = 0; i < n; i++) { xs[i] = places[2 * i]; ys[i] = places[2 * i + 1]; }

  function segments(pairs) {
    const x = [], y = [];
    for (let e = 0; e < pairs.length; e += 2) {
      x.push(xs[pairs[e]], xs[pairs[e + 1]], null);
      y.push(ys[pairs[e]], ys[pairs[e + 1]], null);
    }
    return { x, y };
  }

  // Edges are coloured by their prediction if the task is to predict edges, otherwise in one colour.
  function edgeTraces() {
    const line = (pairs, more) => ({ type: "scatter", mode: "lines", ...segments(pairs), hoverinfo: "skip", showlegend: false, ...more });
    const quiet = { opacity: data.all_edges > 500 ? 0.5 : 1, line: { color: css("--line"), width: data.all_edges > 5000 ? 0.4 : 0.8 } };
    if (data.level !== "edge" || !data.classes) return [line(edges, quiet)];
    const groups = new Map();
    for (let e = 0; e < edges.length / 2; e++) {
      const predicted = facts.prediction[e];
      const wrong = facts.label && facts.label[e] !== predicted;
      const title = `predicted ${data.classes[predicted]}` + (facts.label ? (wrong ? `, label ${data.classes[facts.label[e]]}` : ", right") : "");
      if (!groups.has(title)) groups.set(title, { pairs: [], predicted, wrong });
      groups.get(title).pairs.push(edges[2 * e], edges[2 * e + 1]);
    }
    const background = data.background ? [line(numbers(data.background, Int32Array), quiet)] : [];
    return [...background, ...[...groups].map(([title, { pairs, predicted, wrong }]) => line(pairs, {
      name: label(title), showlegend: true,
      line: predicted === 0 && !wrong ? quiet.line : { color: colour(predicted + 2 * wrong), width: 2, dash: wrong ? "dot" : "solid" },
    }))];
  }

  function nodeColours() {
    const choice = byId("colour").value;
    const scale = { colorscale: "Cividis", showscale: true, colorbar: { thickness: 12, len: 0.9, exponentformat: "power" } };
    if (choice === "attention") return { color: state.weights, ...scale };
    if (choice === "degree") return { color: facts.degree, ...scale };
    if (choice === "right") {
      return { color: Array.from(facts.prediction, (p, i) => (p === facts.label[i] ? colour(0) : colour(1))), showscale: false };
    }
    const values = facts[choice];
    if (choice !== "community" && !data.classes) return { color: values, ...scale };
    return { color: Array.from(values, (value) => colour(value)), showscale: false };
  }

  // Legend of class colours; continuous colours have a colour bar.
  function key() {
    const choice = byId("colour").value;
    const names = choice === "right" ? ["right", "wrong"]
      : choice === "community" ? Array.from({ length: 1 + facts.community.reduce((a, b) => Math.max(a, b), 0) }, (_, i) => i)
        : (choice === "label" || choice === "prediction") && data.classes ? data.classes : [];
    const parts = names.slice(0, 40).map((text, i) => {
      const item = document.createElement("span"), spot = document.createElement("span");
      spot.textContent = "● ";
      spot.style.color = colour(i);
      item.append(spot, `${text}   `);
      return item;
    });
    const repeat = names.length > data.colours.length ? `(${names.length} of them; colours repeat after ${data.colours.length})` : "";
    byId("key").replaceChildren(...parts, repeat);
  }

  // Hover texts, read by Plotly; attention values are replaced in place, without drawing again.
  const details = Array.from({ length: n }, (_, i) => [
    label(name(i)), 0, ofNodes ? label(answer(facts.label, i)) : "", ofNodes ? label(answer(facts.prediction, i)) : "",
  ]);
  const hover = "node %{customdata[0]}<br>attention %{customdata[1]}"
    + (ofNodes ? (facts.label ? "<br>label %{customdata[2]}" : "") + "<br>prediction %{customdata[3]}" : "") + "<extra></extra>";
  let nodeTrace = 0;

  function strongest(count) {
    const chosen = []; // a few of many: kept sorted by insertion
    for (let j = 0; j < n; j++) {
      const weight = state.weights[j];
      if (chosen.length === count && (count === 0 || weight <= state.weights[chosen[count - 1]])) continue;
      let at = chosen.length;
      while (at > 0 && state.weights[chosen[at - 1]] < weight) at--;
      chosen.splice(at, 0, j);
      if (chosen.length > count) chosen.pop();
    }
    return chosen;
  }

  // No link is drawn for an attention of 0, even if there are fewer links than requested.
  const attended = (count) => strongest(count).filter((j) => state.weights[j] > 0);

  function links(chosen) {
    return segments(chosen.flatMap((j) => [state.node, j]));
  }

  function drawGraph() {
    const lines = edgeTraces();
    nodeTrace = lines.length;
    const size = n > 5000 ? 4 : n > 1000 ? 6 : n > 300 ? 8 : 11;
    const nodes = {
      type: points, mode: "markers", x: xs, y: ys, showlegend: false, customdata: details, hovertemplate: hover,
      marker: { size, line: { width: large ? 0 : 0.7, color: css("--back") }, ...nodeColours() },
    };
    const marks = attended(linkCount());
    draw("graph", [
      ...lines, nodes,
      { type: points, mode: "lines", ...links(marks), hoverinfo: "skip", showlegend: false, line: { color: colour(1), width: 1.8 } },
      { type: points, mode: "markers", x: [xs[state.node]], y: [ys[state.node]], hoverinfo: "skip", showlegend: false,
        marker: { size: size + 7, color: "rgba(0,0,0,0)", line: { width: 3, color: colour(1) } } },
    ], {
      xaxis: { visible: false }, yaxis: { visible: false, scaleanchor: "x" }, margin: { l: 5, r: 5, t: 5, b: 5 },
      hovermode: "closest", dragmode: "pan", uirevision: "graph",
    }, { scrollZoom: true });
    const part = edges.length / 2 < data.all_edges ? `${(edges.length / 2).toLocaleString("en")} of ${data.all_edges.toLocaleString("en")} edges are drawn. ` : "";
    byId("graph-said").textContent = `${part}Click a node, or type its number above.`;
  }

  const linkCount = () => Math.max(0, Math.min(200, Math.floor(Number(byId("links").value) || 0)));

  // Updates only what has changed: a click does not draw the whole graph again.
  function updateGraph() {
    const { color, showscale, colorscale, colorbar } = nodeColours();
    const lines = links(attended(linkCount()));
    const style = {
      x: [xs, lines.x, [xs[state.node]]], y: [ys, lines.y, [ys[state.node]]],
      "marker.color": [color, null, "rgba(0,0,0,0)"], "marker.showscale": [showscale, false, false],
    };
    if (showscale) Object.assign(style, { "marker.colorscale": [colorscale, null, null], "marker.colorbar": [colorbar, null, null] });
    key();
    Plotly.restyle("graph", style, [nodeTrace, nodeTrace + 1, nodeTrace + 2]);
  }

  function shares() {
    const total = state.weights.reduce((sum, value) => sum + value, 0);
    const part = (fits) => state.weights.reduce((sum, value, j) => sum + (fits(j) ? value : 0), 0) / total;
    const told = [["row sum", total.toPrecision(7)]];
    if (!(total > 0) || state.weights.some((value) => value < 0)) return { total, told };
    const percent = (value) => `${(100 * value).toFixed(1)} %`;
    if (ofNodes && facts.label && data.classes) told.push(["to nodes of its label", percent(part((j) => facts.label[j] === facts.label[state.node]))]);
    told.push(["to its community", percent(part((j) => facts.community[j] === facts.community[state.node]))]);
    const near = new Set();
    for (let e = 0; e < ends.length; e += 2) {
      if (ends[e] === state.node) near.add(ends[e + 1]);
      if (ends[e + 1] === state.node) near.add(ends[e]);
    }
    told.push(["to its neighbours", percent(part((j) => near.has(j)))]);
    return { total, told };
  }

  function showRow() {
    const { total, told } = shares();
    const i = state.node;
    const rows = [["node", name(i)], ["degree", facts.degree[i]], ["community", facts.community[i]]];
    if (ofNodes && facts.label) rows.push(["label", answer(facts.label, i)]);
    if (ofNodes) rows.push(["prediction", answer(facts.prediction, i) + (facts.confidence ? ` (${(100 * facts.confidence[i]).toFixed(1)} %)` : "")]);
    byId("chosen").replaceChildren(...[...rows, ...told].flatMap(([key, value]) => {
      const dt = document.createElement("dt"), dd = document.createElement("dd");
      dt.textContent = key;
      dd.textContent = value;
      return [dt, dd];
    }));
    byId("strongest").tBodies[0].replaceChildren(...strongest(Math.min(n, Math.max(20, linkCount()))).map((j) => {
      const tr = document.createElement("tr");
      tr.dataset.node = j;
      const cells = [name(j), state.weights[j].toPrecision(7), total > 0 ? `${((100 * state.weights[j]) / total).toFixed(2)} %` : "",
        ...(ofNodes ? [answer(facts.label, j), answer(facts.prediction, j)] : [])];
      cells.forEach((text, place) => {
        const td = tr.insertCell();
        td.textContent = text;
        if (place < 3) td.className = "number";
      });
      tr.cells[1].dataset.value = state.weights[j];
      return tr;
    }));
    showValue();
    byId("said").textContent = `Node ${name(i)} in ${layer().name}` + (layer().heads.length > 1 ? `, head ${state.head + 1}` : "") + (attended(3).length ? `: strongest to ${attended(3).map(name).join(", ")}.` : ": attends to no node.");
  }

  function showValue() {
    const j = clamp(byId("target").value);
    byId("value").textContent = n ? String(state.weights[j]) : "";
  }

  const clamp = (text) => Math.max(0, Math.min(n - 1, Math.floor(Number(text) || 0)));

  function attend() {
    state.weights = row(head(), state.node, n, layer().rank);
    for (let i = 0; i < n; i++) details[i][1] = state.weights[i];
  }

  let waiting = false;
  function choose(node) {
    state.node = clamp(node);
    byId("node").value = state.node;
    attend();
    showRow(); // numbers first; drawing follows once, even after several choices
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      updateGraph();
    });
  }

  function order() {
    const by = byId("order").value;
    const keys = { community: (i) => facts.community[i], degree: (i) => -facts.degree[i], prediction: (i) => facts.prediction[i], label: (i) => facts.label[i], number: () => 0 }[by];
    return Array.from({ length: n }, (_, i) => i).sort((a, b) => keys(a) - keys(b) || (by === "community" ? facts.degree[b] - facts.degree[a] : 0) || a - b);
  }

  let shownOrder = [];
  function drawMatrix() {
    shownOrder = order();
    const rows = matrix(head(), shownOrder, layer().rank);
    const logarithmic = byId("log-matrix").checked;
    const z = !logarithmic ? rows : rows.map((line) => Array.from(line, (value) => (value > 0 ? Math.log10(value) : null)));
    draw("matrix", [{
      type: "heatmap", z, colorscale: "Cividis", colorbar: { thickness: 12, exponentformat: "power", title: { text: logarithmic ? "log₁₀" : "" } },
      hovertemplate: "row %{y}, column %{x}: %{z}<extra></extra>",
    }], {
      xaxis: { title: { text: "attended to" }, constrain: "domain" },
      yaxis: { title: { text: "attends" }, autorange: "reversed", scaleanchor: "x", constrain: "domain" }, uirevision: "matrix",
    });
    byId("matrix-said").textContent = rows.length === n
      ? `All ${n} × ${n} values, rows and columns ordered by ${byId("order").value}. Click a row to choose its node.`
      : `Means over ${rows.length} × ${rows.length} blocks of about ${Math.round(n / rows.length)} nodes, ordered by ${byId("order").value}.`;
  }

  function drawSpectrum() {
    const values = head().spectrum;
    const total = values.reduce((sum, value) => sum + value, 0);
    const entropy = -values.reduce((sum, value) => sum + (value > 0 ? (value / total) * Math.log(value / total) : 0), 0);
    const kept = values.filter((value) => value > 1e-6 * values[0]).length;
    byId("spectrum-said").textContent = total > 0
      ? `Singular values; ${kept} of κ = ${layer().rank} above 10⁻⁶ of the largest, effective rank (exp of the entropy) ${Math.exp(entropy).toFixed(2)}.`
      : "All singular values are 0: this layer attends to nothing here.";
    const logarithmic = byId("log-spectrum").checked;
    const floor = values[0] * 1e-9;
    draw("spectrum", [{
      type: "scatter", mode: "lines+markers", x: values.map((_, i) => i + 1), y: values.map((value) => (logarithmic && value <= floor ? null : value)),
      marker: { color: colour(0), size: 7 }, line: { color: colour(0) }, hovertemplate: "σ%{x} = %{y}<extra></extra>",
    }], { xaxis: { title: { text: "k" } }, yaxis: { title: { text: "σ of the attention matrix" }, type: logarithmic ? "log" : "linear", exponentformat: "power" } });
  }

  function heads() {
    byId("head").replaceChildren(...layer().heads.map((_, h) => new Option(String(h + 1), h)));
    state.head = Math.min(state.head, layer().heads.length - 1);
    byId("head").value = state.head;
  }

  byId("layer").addEventListener("change", (event) => {
    state.layer = Number(event.target.value);
    heads();
    choose(state.node);
    drawMatrix();
    drawSpectrum();
  });
  byId("head").addEventListener("change", (event) => {
    state.head = Number(event.target.value);
    choose(state.node);
    drawMatrix();
    drawSpectrum();
  });
  byId("node").addEventListener("change", (event) => choose(event.target.value));
  byId("links").addEventListener("change", () => { updateGraph(); showRow(); });
  byId("colour").addEventListener("change", updateGraph);
  byId("target").addEventListener("input", showValue);
  byId("order").addEventListener("change", drawMatrix);
  byId("log-matrix").addEventListener("change", drawMatrix);
  byId("log-spectrum").addEventListener("change", drawSpectrum);
  byId("copy-row").addEventListener("click", async () => {
    const area = byId("copied-text");
    area.hidden = false;
    area.value = "node,attention\r\n" + Array.from(state.weights, (value, j) => `${j},${value}\r\n`).join("");
    try {
      await navigator.clipboard.writeText(area.value);
    } catch {
      area.select(); // without clipboard access, the text is shown and selected
      document.execCommand("copy");
    }
  });

  if (n === 0) {
    byId("said").textContent = "This graph has no nodes.";
    return;
  }
  byId("layer").value = state.layer;
  heads();
  attend();
  drawGraph();
  showRow();
  drawMatrix();
  drawSpectrum();
  byId("graph").on("plotly_click", ({ points: hit }) => {
    const found = hit.find((point) => point.curveNumber === nodeTrace);
    if (found) choose(found.pointNumber);
  });
  byId("matrix").on("plotly_click", ({ points: hit }) => {
    const place = Math.floor((hit[0].y * n) / hit[0].data.z.length);
    choose(shownOrder[place]);
  });
  byId("matrix").on("plotly_hover", ({ points: [hit] }) => {
    if (hit.data.z.length !== n) return; // a block is not a single node
    const [i, j] = [shownOrder[hit.y], shownOrder[hit.x]];
    byId("matrix-value").textContent = `Node ${name(i)} to node ${name(j)}: ${row(head(), i, n, layer().rank)[j]}`;
  });
  LRGA.whenRepainted(drawGraph);
})();

// Shared by all pages: data, light and dark mode, charts.
"use strict";
window.LRGA = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Set();
  const repainted = [];

  // Plotly interprets some HTML tags in labels; names must stay text.
  const label = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const colour = (number) => data.colours[number % data.colours.length];
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  function axis() {
    return { gridcolor: css("--grid"), linecolor: css("--line"), zerolinecolor: css("--line"), automargin: true, exponentformat: "power" };
  }

  // The layout in the colours of the page; settings of the chart take precedence.
  function themed(layout) {
    const result = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: css("--text"), family: "system-ui, DejaVu Sans, sans-serif", size: 12 },
      margin: { l: 55, r: 15, t: 28, b: 45 },
      legend: { orientation: "h", x: 0, y: 1.01, yanchor: "bottom" },
      hoverlabel: { bgcolor: css("--panel"), bordercolor: css("--line"), font: { color: css("--text") }, align: "left" },
      ...layout,
    };
    for (const name of ["xaxis", "yaxis"]) result[name] = { ...axis(), ...(layout[name] || {}) };
    return result;
  }

  // Nothing is sent to a server. On touch screens and narrow windows, the toolbar would cover the legend.
  const cramped = window.matchMedia("(hover: none), (max-width: 40rem)").matches;
  const config = {
    responsive: true, displaylogo: false, displayModeBar: cramped ? false : "hover", showSendToCloud: false,
    plotlyServerURL: "", modeBarButtonsToRemove: ["lasso2d", "select2d", "sendChartToCloud"],
  };

  function draw(element, traces, layout, more = {}) {
    const node = typeof element === "string" ? document.getElementById(element) : element;
    if (!node) return null;
    drawn.add(node);
    node.lrgaLayout = layout;
    return Plotly.react(node, traces, themed(layout), { ...config, ...more });
  }

  function repaint() {
    for (const node of drawn) {
      const full = themed(node.lrgaLayout);
      Plotly.relayout(node, {
        "font.color": full.font.color, hoverlabel: full.hoverlabel,
        "xaxis.gridcolor": css("--grid"), "yaxis.gridcolor": css("--grid"),
        "xaxis.linecolor": css("--line"), "yaxis.linecolor": css("--line"),
        "xaxis.zerolinecolor": css("--line"), "yaxis.zerolinecolor": css("--line"),
      });
    }
    repainted.forEach((redraw) => redraw());
  }

  let chosen = null; // by the reader; otherwise the system's choice
  function theme(name) {
    root.dataset.theme = name;
    repaint();
  }
  const current = () => chosen || (system.matches ? "dark" : "light");
  root.dataset.theme = current();
  system.addEventListener("change", () => theme(current()));
  document.getElementById("theme").addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    theme(chosen);
  });
  // Printed pages are white.
  window.addEventListener("beforeprint", () => theme("light"));
  window.addEventListener("afterprint", () => theme(current()));

  return { data, label, colour, css, draw, whenRepainted: (redraw) => repainted.push(redraw) };
})();

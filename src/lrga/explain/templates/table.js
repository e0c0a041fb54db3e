// Tables that sort, filter and copy.
"use strict";
LRGA.tables = (() => {
  const body = (table) => table.tBodies[0];
  const shown = (table) => [...body(table).rows].filter((row) => !row.hidden);

  function sortBy(table, column, direction) {
    const value = (row) => {
      const cell = row.cells[column];
      if (cell.dataset.value === undefined) return cell.textContent.toLowerCase();
      return cell.dataset.value === "" ? null : Number(cell.dataset.value);
    };
    const rows = [...body(table).rows].map((row, place) => ({ row, place, value: value(row) }));
    rows.sort((a, b) => {
      if (a.value === null || b.value === null) return (a.value === null) - (b.value === null) || a.place - b.place;
      const order = typeof a.value === "number" ? a.value - b.value : a.value.localeCompare(b.value, "en", { numeric: true });
      return order * direction || a.place - b.place;
    });
    body(table).append(...rows.map((entry) => entry.row));
  }

  function prepare(table) {
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      heading.setAttribute("aria-sort", "none");
      heading.querySelector("button").addEventListener("click", () => {
        const up = heading.getAttribute("aria-sort") !== "ascending";
        headings.forEach((other) => other.setAttribute("aria-sort", "none"));
        heading.setAttribute("aria-sort", up ? "ascending" : "descending");
        sortBy(table, column, up ? 1 : -1);
      });
    });
  }

  // Rows that contain all typed words and match the chosen values.
  function filter(table, choices = {}) {
    const input = document.querySelector(`[data-filter="${table.id}"]`);
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of body(table).rows) {
      const text = [...row.cells].map((cell) => cell.textContent.toLowerCase()).join(" ");
      const fits = Object.entries(choices).every(([key, value]) => !value || row.dataset[key] === value);
      row.hidden = !(fits && words.every((word) => text.includes(word)));
    }
    say(table, `${shown(table).length} of ${body(table).rows.length} shown`);
  }

  function say(table, text) {
    document.getElementById(`${table.id}-said`).textContent = text;
  }

  const texts = (table) => {
    const cells = (row) => [...row.cells].map((cell) => cell.textContent.trim());
    return { head: cells(table.tHead.rows[0]), rows: shown(table).map(cells), numeric: [...table.tHead.rows[0].cells].map((c) => c.classList.contains("number")) };
  };

  const formats = {
    markdown({ head, rows, numeric }) {
      const safe = (text) => text.replace(/[\\|<>*_`[\]&$~]/g, "\\$&").replace(/\s*[\r\n]\s*/g, " ");
      const line = (cells) => `| ${cells.map(safe).join(" | ")} |`;
      return [line(head), `|${numeric.map((n) => (n ? "---:" : "---")).join("|")}|`, ...rows.map(line)].join("\n") + "\n";
    },
    latex({ head, rows, numeric }) {
      const names = { // [ and * at the start of a row would be read as arguments of the preceding \\
        "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "<": "\\textless{}",
        ">": "\\textgreater{}", "|": "\\textbar{}", "[": "{[}", "*": "{*}", "±": "$\\pm$", "κ": "$\\kappa$", "–": "--", "−": "$-$",
      };
      const safe = (text) => text.replace(/\s*[\r\n]\s*/g, " ").replace(/[\\~^<>|[*±κ–−]|[&%$#_{}]/g, (c) => names[c] || `\\${c}`);
      const line = (cells) => `${cells.map(safe).join(" & ")} \\\\`;
      return [
        `\\begin{tabular}{${numeric.map((n) => (n ? "r" : "l")).join("")}}`, "\\hline", line(head), "\\hline",
        ...rows.map(line), "\\hline", "\\end{tabular}",
      ].join("\n") + "\n";
    },
    csv({ head, rows, numeric }) {
      // Text that a spreadsheet would read as a formula gets an apostrophe, so it stays text.
      const safe = (text, number) => {
        const kept = !number && /^[=+@\-\t]/.test(text) ? `'${text}` : number ? text.replace(/,/g, "") : text;
        return /[",\n\r]/.test(kept) ? `"${kept.replace(/"/g, '""')}"` : kept;
      };
      const line = (cells) => cells.map((text, i) => safe(text, numeric[i])).join(",");
      return [head.map((text) => safe(text, false)).join(","), ...rows.map(line)].join("\r\n") + "\r\n";
    },
  };

  async function copy(table, format) {
    const text = formats[format](texts(table));
    const area = document.getElementById("copied-text");
    document.getElementById("copied").hidden = false;
    area.value = text;
    let done = false;
    try {
      await navigator.clipboard.writeText(text);
      done = true;
    } catch {
      area.select(); // without clipboard access, the text is shown and selected
      done = document.execCommand("copy");
    }
    say(table, done ? `${shown(table).length} rows copied` : "press Ctrl+C: the text below is selected");
  }

  document.querySelectorAll("table").forEach((table) => table.tHead && prepare(table));
  document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", () => {
    copy(document.getElementById(button.dataset.table), button.dataset.copy);
  }));
  return { filter, formats, texts };
})();

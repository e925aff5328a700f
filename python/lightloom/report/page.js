"use strict";
// Draws the report's charts from the JSON in the page. Names are untrusted: text is only ever set
// as text, never as markup. Lengths of time are seconds unless a name says otherwise.
const DATA = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const drawn = ["svg", "g", "rect", "path", "line", "text", "circle"].includes(tag);
  const node = drawn ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// --- numbers as text

const round = (value, digits = 4) => Number(value.toPrecision(digits)).toLocaleString("en-US", { maximumFractionDigits: 12 });
function seconds(value) {
  for (const [unit, scale] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]]) if (Math.abs(value) >= scale * 0.9995) return `${round(value / scale)} ${unit}`;
  return value === 0 ? "0 s" : `${round(value / 1e-9)} ns`;
}
const UNITS = [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]];
function bytes(value) {
  for (const [unit, scale] of UNITS) if (value >= scale) return `${round(value / scale)} ${unit}`;
  return `${value} B`;
}
const percent = (share) => `${(100 * share).toFixed(1)} %`;
const exact = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 12 });
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// --- tooltips: for the pointer and for the keyboard alike

const tip = $("tip");
function showTip(title, lines, x, y) {
  tip.replaceChildren(make("b", {}, title), lines.join("\n"));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, x + 14 + box.width > innerWidth ? x - box.width - 12 : x + 14)}px`;
  tip.style.top = `${Math.max(4, y + 14 + box.height > innerHeight ? y - box.height - 12 : y + 14)}px`;
}
const hideTip = () => { tip.hidden = true; };
addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
addEventListener("scroll", hideTip, { passive: true });

function explain(node, title, lines) {
  node.setAttribute("aria-label", `${title}: ${lines.join(", ")}`);
  node.addEventListener("pointermove", (event) => showTip(title, lines, event.clientX, event.clientY));
  node.addEventListener("pointerleave", hideTip);
  node.addEventListener("focus", () => {
    if (!node.matches(":focus-visible")) return;
    const box = node.getBoundingClientRect();
    showTip(title, lines, box.left + Math.min(box.width, 200), box.bottom - 8);
  });
  node.addEventListener("blur", hideTip);
}
function onPress(node, action) {
  node.addEventListener("click", action);
  node.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); action(); }
  });
}

// --- the comparison

function runLines(row) {
  const lines = [`iteration ${exact(row.iteration_s)} s`];
  if (row.iteration_s_median != null) lines.push(`median of draws ${exact(row.iteration_s_median)} s, 5th to 95th percentile ${exact(row.iteration_s_low)} to ${exact(row.iteration_s_high)} s`);
  DATA.causes.forEach((cause) => lines.push(`${cause.label} ${exact(row[cause.column])} s (${percent(row[cause.column] / row.iteration_s)})`));
  if (row.mfu != null) lines.push(`model FLOPs utilisation ${percent(row.mfu)} (causal attention)`);
  if (row.tokens_per_s != null) lines.push(`${exact(row.tokens_per_s)} tokens per s`);
  if (row.cost_usd !== null) lines.push(`network cost $${exact(row.cost_usd)}`);
  if (row.perf_per_dollar_vs_fat_tree !== null) lines.push(`performance per dollar ${exact(row.perf_per_dollar_vs_fat_tree)} × fat-tree`);
  if (row.pareto) lines.push("on the Pareto front");
  return lines;
}
const runTitle = (row) => `${row.fabric}, ${row.bandwidth_gbps} Gbps`;

function drawBars() {
  // Several draws: a bar is the first of them, its whisker the interval of all, with their median.
  const longest = Math.max(...DATA.runs.map((row) => Math.max(row.iteration_s, row.iteration_s_high ?? 0)));
  const decimals = Math.max(0, 2 - Math.floor(Math.log10(longest || 1)));
  const panels = $("bars");
  for (const rate of new Set(DATA.runs.map((row) => row.bandwidth_gbps))) {
    const panel = make("div", {}, make("h3", {}, `${rate} Gbps`));
    for (const row of DATA.runs.filter((row) => row.bandwidth_gbps === rate)) {
      const drawing = make("svg", { "aria-hidden": "true" });
      let left = 0;
      DATA.causes.forEach((cause, i) => {
        const width = Math.max(0, row[cause.column]) / longest * 100;
        drawing.append(make("rect", { x: `${left}%`, width: `${width}%`, height: "100%", fill: `var(--c${i})` }));
        left += width;
      });
      const bar = make("div", { class: "bar", tabindex: 0, role: "img" },
        make("span", { class: "n" }, row.fabric), drawing);
      if (row.iteration_s_high != null) {
        const at = (time) => `${time / longest * 100}%`;
        const [low, middle, high] = ["low", "median", "high"].map((part) => at(row[`iteration_s_${part}`]));
        for (const [x1, x2, y1, y2] of [[low, high, 50, 50], [low, low, 25, 75], [high, high, 25, 75], [middle, middle, 10, 90]])
          drawing.append(make("line", { class: "whisker", x1, x2, y1: `${y1}%`, y2: `${y2}%` }));
        left = Math.max(left, row.iteration_s_high / longest * 100);
      }
      drawing.append(make("text", { x: `${left}%`, dx: 7, y: "50%", "dominant-baseline": "central" }, `${row.iteration_s.toFixed(decimals)} s`));
      explain(bar, runTitle(row), runLines(row));
      panel.append(bar);
    }
    panels.append(panel);
  }
}

const MARKS = {
  o: "M5 0A5 5 0 1 1-5 0 5 5 0 1 1 5 0Z", s: "M-4.6-4.6H4.6V4.6H-4.6Z", D: "M0-6.2L6.2 0 0 6.2-6.2 0Z",
  v: "M-5.8-4.2H5.8L0 6Z", "^": "M-5.8 4.2H5.8L0-6Z", P: "M-2-6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z",
  X: "M-3-6L0-3 3-6 6-3 3 0 6 3 3 6 0 3-3 6-6 3-3 0-6-3Z", p: "M0-6L5.7-1.9 3.5 4.9H-3.5L-5.7-1.9Z",
  h: "M0-6L5.2-3V3L0 6-5.2 3V-3Z", d: "M0-7L4 0 0 7-4 0Z",
  "*": "M0-7.4L1.9-2.4 7-2.3 2.9 1 4.4 6 0 3-4.4 6-2.9 1-7-2.3-1.9-2.4Z",
};
const family = (name) => `var(--f${DATA.fabrics.findIndex((fabric) => fabric.name === name)})`;

function ticks(top, wanted) {
  const rough = top / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  return Array.from({ length: Math.floor(top / step * 1.0001) + 1 }, (_, i) => i * step);
}

// Where labels of points have room: over no mark and no other label; what has none is left out. As style/labels.py does.
function placed(points, area, mark = 7, height = 13) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "12px system-ui, sans-serif";
  const meets = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const marks = points.map(({ x, y }) => ({ left: x - mark, right: x + mark, top: y - mark, bottom: y + mark }));
  const used = [];
  for (const [at, { x, y, text }] of points.entries()) {
    // Points that fall together and say the same say it once.
    if (points.slice(0, at).some((other) => other.text === text && Math.hypot(other.x - x, other.y - y) < mark)) continue;
    const width = pen.measureText(text).width + 4;
    const others = marks.filter((m) => !(m.left <= x && x <= m.right && m.top <= y && y <= m.bottom));
    const places = [0.8, 1.6, 2.6].flatMap((away) => [[1, -1], [1, 1], [-1, -1], [-1, 1], [0, -1], [0, 1], [1, 0], [-1, 0]].map(([right, down]) => {
      const middle = x + right * (width / 2 + away * mark), level = y + down * (height / 2 + away * mark);
      return { text, middle, left: middle - width / 2, right: middle + width / 2, top: level - height / 2, bottom: level + height / 2 };
    }));
    const found = places.find((box) => box.left >= area.left && box.right <= area.right && box.top >= area.top && box.bottom <= area.bottom
      && ![...used, ...others].some((other) => meets(box, other)));
    if (found) used.push(found);
  }
  return used;
}

function drawPareto() {
  const rows = DATA.runs.filter((row) => row.cost_usd !== null);
  const host = $("pareto");
  // One point compares nothing.
  if (rows.length < 2) { host.closest("section").hidden = true; return; }
  const legend = $("pareto-legend");
  for (const fabric of DATA.fabrics) legend.append(make("li", {},
    make("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" }, make("path", { d: MARKS[fabric.mark], fill: family(fabric.name) })), fabric.name));
  const draw = () => {
    const width = Math.max(280, host.clientWidth), height = Math.min(430, Math.max(280, width * 0.5));
    const edge = { left: 44, right: 26, top: 30, bottom: 44 };
    const most = Math.max(...rows.map((row) => row.cost_usd)) / 1e6 * 1.04 || 1;
    const slowest = Math.max(...rows.map((row) => row.iteration_s)) * 1.06 || 1;
    const x = (usd) => edge.left + usd / 1e6 / most * (width - edge.left - edge.right);
    const y = (time) => height - edge.bottom - time / slowest * (height - edge.top - edge.bottom);
    const chart = make("svg", { class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Iteration time against network cost" });
    for (const value of ticks(slowest, 6)) chart.append(
      make("line", { class: "axis", x1: edge.left, x2: width - edge.right, y1: y(value), y2: y(value) }),
      make("text", { x: edge.left - 8, y: y(value) + 4, "text-anchor": "end" }, round(value)));
    for (const value of ticks(most, width > 560 ? 8 : 4)) chart.append(
      make("line", { class: "axis", x1: x(value * 1e6), x2: x(value * 1e6), y1: edge.top, y2: height - edge.bottom }),
      make("text", { x: x(value * 1e6), y: height - edge.bottom + 18, "text-anchor": "middle" }, round(value)));
    chart.append(make("text", { x: width - edge.right, y: height - 6, "text-anchor": "end" }, "network cost [million US dollars] →"),
      make("text", { x: edge.left - 34, y: 12 }, "↑ iteration time [s]"));
    for (const fabric of DATA.fabrics) {
      const points = rows.filter((row) => row.fabric === fabric.name).sort((a, b) => a.cost_usd - b.cost_usd);
      chart.append(make("path", { class: "family", "data-fabric": fabric.name, stroke: family(fabric.name),
        d: points.map((row, i) => `${i ? "L" : "M"}${x(row.cost_usd)} ${y(row.iteration_s)}`).join("") || "M0 0" }));
    }
    const front = rows.filter((row) => row.pareto).sort((a, b) => a.cost_usd - b.cost_usd || b.iteration_s - a.iteration_s);
    if (front.length) chart.append(make("path", { class: "front-line",
      d: front.map((row, i) => (i ? `H${x(row.cost_usd)}V${y(row.iteration_s)}` : `M${x(row.cost_usd)} ${y(row.iteration_s)}`)).join("") }));
    const area = { left: edge.left, right: width, top: 14, bottom: height - edge.bottom };
    for (const label of placed(rows.map((row) => ({ x: x(row.cost_usd), y: y(row.iteration_s), text: String(row.bandwidth_gbps) })), area))
      chart.append(make("text", { class: "rate", x: label.middle, y: label.bottom - 3, "text-anchor": "middle", "aria-hidden": "true" }, label.text));
    // Hollow marks are larger and on top, so that they ring what they fall together with.
    for (const row of [...rows].sort((a, b) => b.pareto - a.pareto)) {
      const point = make("path", { class: "point", "data-fabric": row.fabric, d: MARKS[DATA.fabrics.find((f) => f.name === row.fabric).mark],
        transform: `translate(${x(row.cost_usd)} ${y(row.iteration_s)}) scale(${row.pareto ? 1 : 1.25})`, stroke: family(row.fabric),
        fill: row.pareto ? family(row.fabric) : "none", tabindex: 0, role: "img" });
      const beside = rows.filter((other) => other !== row && Math.hypot(x(other.cost_usd) - x(row.cost_usd), y(other.iteration_s) - y(row.iteration_s)) < 7);
      explain(point, runTitle(row), [...runLines(row), ...beside.map((other) => `beside it: ${runTitle(other)}, ${exact(other.iteration_s)} s`)]);
      const dim = (on) => () => chart.querySelectorAll("[data-fabric]").forEach((node) => node.classList.toggle("dim", on && node.dataset.fabric !== row.fabric));
      point.addEventListener("pointerenter", dim(true));
      point.addEventListener("pointerleave", dim(false));
      chart.append(point);
    }
    host.replaceChildren(chart);
  };
  onResize(host, draw);
}

function onResize(host, draw) {
  let width = 0;
  // In the next frame: drawing may change the height, which must not count as another resize here.
  new ResizeObserver(() => requestAnimationFrame(() => { if (host.clientWidth !== width) { width = host.clientWidth; draw(); } })).observe(host);
}

// --- tables that sort

for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], original = [...body.rows];
  table.querySelectorAll("th button").forEach((button) => button.addEventListener("click", () => {
    const head = button.parentElement, column = head.cellIndex, was = head.getAttribute("aria-sort");
    table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
    const value = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent;
    const number = original.every((row) => value(row) === "" || !Number.isNaN(Number(value(row))));
    const compare = (a, b) => {
      if (value(a) === "" || value(b) === "") return (value(a) === "") - (value(b) === "");
      return (was === "ascending" ? -1 : 1) * (number ? value(a) - value(b) : value(a).localeCompare(value(b)));
    };
    if (was === "descending") body.append(...original);
    else { head.setAttribute("aria-sort", was ? "descending" : "ascending"); body.append(...[...original].sort(compare)); }
    table.classList.toggle("sorted", was !== "descending");
    original.forEach((row) => row.classList.toggle("first", was === "descending" && "first" in row.dataset));
  }));
}

// The parts of the report that look into one run: its timeline, its demand and circuits.

// Columns are byte planes, gzipped: numpy wrote them, see html.py.
async function unpack(packed) {
  const raw = Uint8Array.from(atob(packed.z), (c) => c.charCodeAt(0));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("gzip"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  const table = { length: packed.rows };
  let at = 0;
  for (const [name, type, delta] of packed.columns) {
    const size = { u1: 1, u2: 2, u4: 4, f8: 8 }[type];
    const mixed = new Uint8Array(packed.rows * size);
    for (let k = 0; k < size; k++) for (let i = 0; i < packed.rows; i++) mixed[i * size + k] = planes[at++];
    const values = new { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f8: Float64Array }[type](mixed.buffer);
    if (delta) for (let i = 1; i < packed.rows; i++) values[i] += values[i - 1];
    table[name] = values;
  }
  return table;
}
const unpacked = {};
const load = (where, run) => (unpacked[`${where}/${run}`] ??= unpack(DATA[where][run]));

function fill(select, names, chosen) {
  select.replaceChildren(...names.map((name) => make("option", { value: name, ...(name === chosen ? { selected: "" } : {}) }, String(name))));
}
const failed = (host) => (error) => { host.replaceChildren(make("p", { class: "note" }, `This picture could not be drawn (${error.message}). The tables beside this file hold its numbers.`)); };

// --- demand and circuits

async function drawHeat() {
  const runs = Object.keys(DATA.demand);
  const section = $("heat").closest("section");
  if (!runs.length) { section.hidden = true; return; }
  const [run, layer, batch] = [$("heat-run"), $("heat-layer"), $("heat-batch")];
  fill(run, runs, DATA.shown.demand);
  let table;
  const distinct = (values) => [...new Set(values)].sort((a, b) => a - b);
  const pick = async () => {
    table = await load("demand", run.value);
    const layers = distinct(table.layer);
    fill(layer, layers, layers.includes(Number(layer.value)) ? Number(layer.value) : layers[0]);
    batches();
  };
  let ofLayer = [];
  const batches = () => {
    ofLayer = distinct([...table.micro_batch].filter((_, i) => table.layer[i] === Number(layer.value)));
    batch.max = ofLayer.length - 1;
    batch.value = Math.min(batch.value, ofLayer.length - 1);
    batch.disabled = ofLayer.length < 2;
    draw();
  };
  const draw = () => {
    const mb = ofLayer[batch.value];
    $("heat-batch-now").textContent = mb;
    batch.setAttribute("aria-valuetext", `micro-batch ${mb}`);
    const rows = [];
    for (let i = 0; i < table.length; i++) if (table.layer[i] === Number(layer.value) && table.micro_batch[i] === mb)
      rows.push({ source: table.source[i], destination: table.destination[i], bytes: table.bytes[i], circuits: table.circuits[i] });
    const servers = distinct(rows.flatMap((row) => [row.source, row.destination]));
    // What a server's GPUs send each other stays on its scale-up network.
    const inside = rows.filter((row) => row.source === row.destination).reduce((sum, row) => sum + row.bytes, 0);
    const between = rows.filter((row) => row.source !== row.destination);
    const total = between.reduce((sum, row) => sum + row.bytes, 0);
    const most = between.reduce((a, b) => (b.bytes > a.bytes ? b : a), { source: 0, destination: 0, bytes: 0 });
    const [unit, scale] = UNITS.find(([, scale]) => most.bytes >= 10 * scale) ?? ["B", 1];
    const lit = between.some((row) => row.circuits > 0);
    $("heat-said").textContent = `${servers.length} servers, ${bytes(total)} between them${total ? `; the busiest pair, ${most.source} to ${most.destination}, carries ${percent(most.bytes / total)}` : ""}.`
      + (inside ? ` ${bytes(inside)} more stay within servers, and off this picture.` : "")
      + (lit ? "" : " This fabric sets no circuits: everything goes through packet switches.");
    const whole = make("div", { class: "pair" },
      make("div", {}, make("h3", {}, `demand between servers [${unit}]`), matrix(between, servers, "bytes", (n) => (n >= 10 * scale ? String(Math.round(n / scale)) : round(n / scale, 2)))),
      make("div", {}, make("h3", {}, "circuits chosen for it [count]"), matrix(between, servers, "circuits", (n) => (n ? String(n) : ""))));
    $("heat").replaceChildren(whole);
  };
  run.addEventListener("change", pick);
  layer.addEventListener("change", batches);
  batch.addEventListener("input", draw);
  await pick();
  redraw.push(draw);
}

// A colour between the least and the most, and black or white, whichever contrasts more with it.
function shade(share) {
  const [low, high] = ["--heat-low", "--heat-high"].map((name) => [1, 3, 5].map((at) => parseInt(css(name).slice(at, at + 2), 16)));
  return low.map((value, i) => Math.round(value + (high[i] - value) * share));
}
function inkOn(color) {
  const [r, g, b] = color.map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  return 1.05 / (light + 0.05) > (light + 0.05) / 0.05 ? "#ffffff" : "#000000";
}

function matrix(rows, servers, column, write) {
  const size = 400, edge = 40, cell = (size - edge) / servers.length;
  const top = rows.reduce((most, row) => Math.max(most, row[column]), 0) || 1;
  const chart = make("svg", { class: "chart", viewBox: `0 0 ${size} ${size + 4}`, role: "group", "aria-label": `${column} from each server to each` });
  const step = Math.ceil(servers.length / 16);
  servers.forEach((server, i) => {
    if (i % step) return;
    chart.append(make("text", { x: edge + (i + 0.5) * cell, y: edge - 8, "text-anchor": "middle" }, server),
      make("text", { x: edge - 8, y: edge + (i + 0.5) * cell + 4, "text-anchor": "end" }, server));
  });
  chart.append(make("text", { x: edge, y: 10 }, "to server →"), make("text", { x: 8, y: edge + 4, transform: `rotate(90 8 ${edge})` }, "from server →"));
  servers.forEach((_, i) => chart.append(make("rect", { class: "same", x: edge + i * cell + 1.5, y: edge + i * cell + 1.5, width: cell - 3, height: cell - 3, rx: 3 })));
  for (const row of rows) {
    // Numbers of circuits are small and flat: a paler scale keeps the demand in front.
    const share = row[column] / top * (column === "circuits" ? 0.72 : 1), i = servers.indexOf(row.source), j = servers.indexOf(row.destination);
    const square = make("rect", { class: "cell", x: edge + j * cell, y: edge + i * cell, width: cell, height: cell, rx: 3, "data-pair": `${i} ${j}`,
      fill: `rgb(${shade(share)})`, tabindex: servers.length > 12 ? -1 : 0, role: "img" });
    explain(square, `server ${row.source} → server ${row.destination}`, [`${bytes(row.bytes)} (${exact(row.bytes)} bytes)`, `${row.circuits} circuit${row.circuits === 1 ? "" : "s"}`]);
    const mark = (on) => () => document.querySelectorAll(`#heat [data-pair="${i} ${j}"]`).forEach((node) => node.classList.toggle("on", on));
    for (const [event, on] of [["pointerenter", true], ["pointerleave", false], ["focus", true], ["blur", false]]) square.addEventListener(event, mark(on));
    chart.append(square);
    if (cell > 28) {
      chart.append(make("text", { x: edge + (j + 0.5) * cell, y: edge + (i + 0.5) * cell + 4, "text-anchor": "middle", "pointer-events": "none", "aria-hidden": "true",
        style: `fill: ${inkOn(shade(share))}` }, write(row[column])));
    }
  }
  return chart;
}

// --- the timeline of one iteration

const TRACKS = { batch: [0, 14], main: [15, 30], network: [48, 7] };  // [top, height] within a stage
const STAGE = 66, AXIS = 26;

async function drawTimeline() {
  const canvas = $("timeline"), select = $("timeline-run");
  fill(select, DATA.runs.map((row) => row.run), DATA.shown.tasks);
  let tasks, tick, spans, stages, first, view, drag = null;
  const groupOf = (i) => DATA.kinds[tasks.kind[i]].group;
  const seconds0 = (value) => value * tick / 1e12;
  const open = async () => {
    const packed = DATA.tasks[select.value];
    tables(select.value);
    document.querySelectorAll(".drawn").forEach((node) => { node.hidden = !packed; });
    $("timeline-not").hidden = Boolean(packed);
    if (!packed) return;
    tasks = await load("tasks", select.value);
    tick = packed.tick_ps;
    stages = packed.stages;
    // Tasks are sorted by stage, then start: those of stage s are first[s] up to first[s + 1].
    first = new Int32Array(stages.length + 1).fill(tasks.length);
    spans = stages.map(() => []);
    tasks.end = new Float64Array(tasks.length);
    let last = 0;
    for (let i = 0; i < tasks.length; i++) {
      const s = tasks.stage[i], end = tasks.end[i] = tasks.start[i] + tasks.duration[i];
      if (i === 0 || tasks.stage[i - 1] !== s) first[s] = i;
      last = Math.max(last, end);
      const group = groupOf(i);
      if (group === "other" || !tasks.micro_batch[i]) continue;
      let span = spans[s].at(-1);
      if (!span || span.batch !== tasks.micro_batch[i] || span.pass !== tasks.pass[i]) {
        spans[s].push(span = { batch: tasks.micro_batch[i], pass: tasks.pass[i], start: tasks.start[i], end, count: 0, first: i, times: {} });
      }
      span.end = Math.max(span.end, end);
      span.count++;
      span.last = i;
      span.times[group] = (span.times[group] ?? 0) + tasks.duration[i] - tasks.waited[i];
      span.times.wait = (span.times.wait ?? 0) + tasks.waited[i];
    }
    view = { from: 0, to: last, whole: last };
    draw();
  };
  const gutter = () => (canvas.clientWidth < 500 ? 30 : 62);
  const x = (time) => gutter() + (time - view.from) / (view.to - view.from) * (canvas.clientWidth - gutter() - 6);
  const timeAt = (pixel) => view.from + (pixel - gutter()) / (canvas.clientWidth - gutter() - 6) * (view.to - view.from);

  function draw() {
    if (!tasks) return;
    const width = canvas.clientWidth, height = stages.length * STAGE + AXIS, scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.style.height = `${height}px`;
    const g = canvas.getContext("2d");
    g.scale(scale, scale);
    g.font = "12px system-ui, sans-serif";
    const colors = Object.fromEntries([...Object.keys(DATA.groups), "wait"].map((name) => [name, css(`--g-${name}`)]));
    const [muted, line, paper] = ["--muted", "--line", "--paper"].map(css);
    Object.defineProperty(colors, "paper", { value: paper });
    const left = gutter();
    g.textBaseline = "middle";
    const from = seconds0(view.from), to = seconds0(view.to), step = ticks(to - from, width / 110)[1];
    const unit = to - from > 1 ? ["s", 1] : to - from > 1e-3 ? ["ms", 1e3] : ["µs", 1e6];
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      const at = x(t * 1e12 / tick);
      g.fillStyle = line;
      g.fillRect(at, 0, 1, height - AXIS + 4);
      g.fillStyle = muted;
      g.textAlign = "center";
      if (at < width - 30) g.fillText(`${round(t * unit[1], 6)} ${unit[0]}`, at, height - AXIS / 2 + 2);
    }
    stages.forEach((stage, s) => {
      const top = s * STAGE;
      g.fillStyle = muted;
      g.textAlign = "left";
      g.fillText(width < 500 ? `S${stage}` : `stage ${stage}`, 0, top + 30);
      g.save();
      g.beginPath();
      g.rect(left, top, width - left - 6, STAGE);
      g.clip();
      drawTasks(g, s, top, colors, width);
      for (const span of spans[s]) {
        if (span.end < view.from || span.start > view.to) continue;
        const a = Math.max(left - 2, x(span.start)), b = Math.min(width - 4, x(span.end)), forward = span.pass === 0;
        g.fillStyle = css(forward ? "--forward" : "--backward");
        g.fillRect(a + 0.5, top + TRACKS.batch[0], Math.max(1, b - a - 1), TRACKS.batch[1]);
        g.fillStyle = css(forward ? "--on-forward" : "--on-backward");
        g.textAlign = "center";
        const label = b - a > 96 ? `micro-batch ${span.batch - 1}` : b - a > 13 ? `${span.batch - 1}` : "";
        if (label) { g.font = "10.5px system-ui, sans-serif"; g.fillText(label, (a + b) / 2, top + TRACKS.batch[0] + 7.5); g.font = "12px system-ui, sans-serif"; }
      }
      g.restore();
    });
    if (drag && drag.moved) {
      g.fillStyle = css("--c1");
      g.globalAlpha = 0.18;
      g.fillRect(Math.min(drag.x, drag.now), 0, Math.abs(drag.now - drag.x), height - AXIS);
      g.globalAlpha = 1;
    }
    canvas.setAttribute("aria-label", `Timeline of ${select.value}, ${seconds(from)} to ${seconds(to)}. Arrow keys move, plus and minus zoom, 0 shows the whole iteration.`);
  }

  function drawTasks(g, s, top, colors, width) {
    const left = gutter(), mainTop = top + TRACKS.main[0], mainHeight = TRACKS.main[1];
    for (const span of spans[s]) {
      span.whole = (x(span.end) - x(span.start)) / span.count < 3;
      if (!span.whole || span.end < view.from || span.start > view.to) continue;
      const a = Math.max(left - 2, x(span.start)) + 0.5, b = Math.min(width, x(span.end)) - 0.5, length = span.end - span.start;
      let y = mainTop;
      for (const group of Object.keys(colors)) {
        const tall = Math.min((span.times[group] ?? 0) / length * mainHeight, mainTop + mainHeight - y);
        if (tall <= 0) continue;
        g.fillStyle = colors[group];
        g.fillRect(a, y, Math.max(0.5, b - a), tall);
        y += tall;
      }
    }
    let next = 0;
    for (let i = first[s]; i < first[s + 1] && tasks.start[i] <= view.to; i++) {
      while (next < spans[s].length && spans[s][next].last < i) next++;
      const span = spans[s][next], group = groupOf(i);
      if (tasks.end[i] < view.from || (group !== "other" && span && span.first <= i && span.whole)) continue;
      const [offset, tall] = group === "other" ? TRACKS.network : TRACKS.main;
      const a = Math.max(left - 2, x(tasks.start[i])), b = Math.min(width, x(tasks.end[i])), lit = Math.min(b, Math.max(a, x(tasks.start[i] + tasks.waited[i])));
      g.fillStyle = colors[group];
      g.fillRect(lit, top + offset, Math.max(b - lit, 0.7), tall);
      if (tasks.waited[i]) { g.fillStyle = colors.wait; g.fillRect(a, top + offset, lit - a, tall); }
      if (b - a > 6) { g.fillStyle = colors.paper; g.fillRect(b - 0.7, top + offset, 0.7, tall); }
      if (group === "other" || b - lit < 30) continue;
      const label = DATA.kinds[tasks.kind[i]].name.replaceAll("_", " ");
      if (b - lit > g.measureText(label).width + 10) {
        g.fillStyle = css(`--on-${group}`);
        g.textAlign = "center";
        g.fillText(label, (lit + b) / 2, top + offset + tall / 2 + 1);
      }
    }
  }

  // The task under a point, the shortest where several lie.
  function taskAt(pixel, y) {
    const s = Math.floor(y / STAGE), within = y - s * STAGE, time = timeAt(pixel);
    if (s < 0 || s >= stages.length || pixel < gutter()) return -1;
    const network = within >= TRACKS.network[0] - 2, slack = (view.to - view.from) / canvas.clientWidth;
    let found = -1;
    for (let i = first[s]; i < first[s + 1] && tasks.start[i] <= time + slack; i++) {
      if (tasks.end[i] < time - slack || (groupOf(i) === "other") !== network) continue;
      const inside = tasks.start[i] <= time && time < tasks.end[i];
      if (found < 0 || (inside && tasks.duration[i] < tasks.duration[found])) found = i;
    }
    return found;
  }
  function hover(event) {
    const box = canvas.getBoundingClientRect(), i = taskAt(event.clientX - box.left, event.clientY - box.top);
    if (i < 0) return hideTip();
    const lines = [`stage ${stages[tasks.stage[i]]}`];
    if (tasks.layer[i]) lines[0] += `, layer ${tasks.layer[i] - 1}`;
    if (tasks.micro_batch[i]) lines[0] += `, micro-batch ${tasks.micro_batch[i] - 1}`;
    const pass = ["forward", "backward", ""][tasks.pass[i]];
    lines.push(`${seconds(seconds0(tasks.duration[i]))}, from ${exact(Number(seconds0(tasks.start[i]).toPrecision(9)))} s`);
    if (tasks.bytes[i]) lines.push(`${bytes(tasks.bytes[i])} (${exact(tasks.bytes[i])} bytes)`);
    if (tasks.waited[i]) lines.push(`waited ${seconds(seconds0(tasks.waited[i]))} for circuits`);
    if (tasks.critical[i]) lines.push(`${seconds(seconds0(tasks.critical[i]))} on the critical path`);
    showTip(`${DATA.kinds[tasks.kind[i]].name.replaceAll("_", " ")}${pass ? `, ${pass}` : ""}`, lines, event.clientX, event.clientY);
  }
  function show(from, to) {
    const length = Math.min(view.whole, Math.max(to - from, view.whole / 2e5, 20));
    view.from = Math.min(Math.max(0, (from + to - length) / 2), view.whole - length);
    view.to = view.from + length;
    draw();
  }
  const zoom = (factor, at = (view.from + view.to) / 2) => show(at - (at - view.from) * factor, at + (view.to - at) * factor);
  const move = (part) => { const d = part * (view.to - view.from); const k = Math.min(Math.max(d, -view.from), view.whole - view.to); show(view.from + k, view.to + k); };
  const middle = () => { const s = Math.floor(stages.length / 2); return spans[s][Math.floor(spans[s].length / 2)]; };
  const micro = () => { const span = middle(); if (span) show(span.start - (span.end - span.start) * 0.6, span.end + (span.end - span.start) * 0.6); };
  const layer = () => {
    const s = Math.floor(stages.length / 2), span = middle();
    if (!span) return;
    let from = Infinity, to = 0, chosen = 0;
    for (let i = first[s]; i < first[s + 1]; i++) {
      if (tasks.start[i] < (span.start + span.end) / 2 && tasks.start[i] >= span.start && tasks.layer[i]) chosen = tasks.layer[i];
    }
    for (let i = first[s]; i < first[s + 1]; i++) {
      if (tasks.layer[i] === chosen && tasks.micro_batch[i] === span.batch && tasks.pass[i] === span.pass) { from = Math.min(from, tasks.start[i]); to = Math.max(to, tasks.end[i]); }
    }
    if (to > from) show(from - (to - from) * 0.08, to + (to - from) * 0.08);
  };
  const actions = { whole: () => show(0, view.whole), micro, layer, in: () => zoom(0.5), out: () => zoom(2) };
  document.querySelectorAll("[data-view]").forEach((button) => button.addEventListener("click", () => actions[button.dataset.view]()));
  canvas.addEventListener("keydown", (event) => {
    const act = { ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25), "+": actions.in, "=": actions.in, "-": actions.out, 0: actions.whole, Home: actions.whole }[event.key];
    if (act && !event.ctrlKey && !event.metaKey) { event.preventDefault(); hideTip(); act(); }
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(event.deltaY / 300), timeAt(event.offsetX));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    drag = { x: event.offsetX, now: event.offsetX, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return hover(event);
    drag.now = event.offsetX;
    if (Math.abs(drag.now - drag.x) > 4) { drag.moved = true; hideTip(); draw(); }
  });
  canvas.addEventListener("pointerup", () => {
    const was = drag;
    drag = null;
    if (was && was.moved) show(...[timeAt(was.x), timeAt(was.now)].sort((a, b) => a - b));
  });
  canvas.addEventListener("pointercancel", () => { drag = null; draw(); });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("dblclick", actions.whole);
  select.addEventListener("change", open);
  await open();
  onResize(canvas, draw);
  redraw.push(draw);
}

function tables(run) {
  for (const [id, rows, columns] of [
    ["transfers", DATA.transfers, ["kind", "count", "bytes", "p50_ps", "p99_ps", "max_ps"]],
    ["links", DATA.links, ["class", "links", "capacity_bps", "bytes", "mean_utilization", "max_utilization"]],
  ]) {
    const write = (column, value) => column.endsWith("_ps") ? seconds(value / 1e12) : column === "bytes" ? bytes(value)
      : column === "capacity_bps" ? (value >= 1e12 ? `${round(value / 1e12)} Tbps` : `${round(value / 1e9)} Gbps`) : column.endsWith("utilization") ? percent(value)
      : typeof value === "number" ? exact(value) : String(value).replaceAll("_", " ");
    $(id).replaceChildren(...rows.filter((row) => row.run === run).map((row) => make("tr", {},
      ...columns.map((column, i) => make("td", i ? { title: `${column} = ${exact(row[column])}` } : { class: "t" }, write(column, row[column]))))));
  }
}

// --- light and dark

const redraw = [];
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").textContent = name === "dark" ? "Light" : "Dark";
  $("theme").setAttribute("aria-label", `Show the page ${name === "dark" ? "light" : "dark"}`);
  redraw.forEach((draw) => draw());
}
const system = matchMedia("(prefers-color-scheme: dark)");
const asked = new URLSearchParams(location.search).get("theme");
setTheme(asked === "dark" || (asked !== "light" && system.matches) ? "dark" : "light");
system.addEventListener("change", () => setTheme(system.matches ? "dark" : "light"));
$("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
let before;
addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme; setTheme("light"); document.querySelectorAll("details").forEach((node) => { node.open = true; }); });
addEventListener("afterprint", () => setTheme(before));

drawBars();
drawPareto();
drawHeat().catch(failed($("heat")));
drawTimeline().catch(failed($("timeline").parentElement));

// What a region's controller is at, asked for once a second. All text goes in as text, never as HTML.
"use strict";

const $ = (id) => document.getElementById(id);
const STAGES = ["drain", "patch", "verify", "confirm"];
const ROWS = 12;
const state = { token: sessionStorage.getItem("token") || "", since: 0, started: 0, names: null,
  events: [], changes: [], last: 0, drawn: {}, pointed: null };

// `lightloom controller page` prints an address with a token, which is taken out of it at once.
function login() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token === null) return;
  history.replaceState(null, "", location.pathname + location.search);
  state.token = token.trim();
  sessionStorage.setItem("token", state.token);
}
addEventListener("hashchange", login);
login();

function make(tag, attributes = {}, ...children) {
  const svg = /^(svg|path|circle|rect|text|g|title|line)$/.test(tag);
  const it = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "style") it.style.cssText = value; // the policy of the page allows no attribute of it
    else it.setAttribute(key, value);
  }
  it.append(...children);
  return it;
}

// Units.
const round = (x) => (x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2));
function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (n >= 1024 && at < units.length - 1) { n /= 1024; at += 1; }
  return at ? `${round(n)} ${units[at]}` : `${n} B`;
}
function span(ps) {
  if (ps >= 60e12) return long(ps / 1e12);
  return ps >= 1e12 ? `${round(ps / 1e12)} s` : ps >= 1e9 ? `${round(ps / 1e9)} ms` : `${round(ps / 1e6)} us`;
}
function long(s) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = Math.max(0, parts.findIndex(([size]) => s >= size));
  const [size, unit] = s < 1 ? parts[3] : parts[at];
  return `${Math.floor(s / size)} ${unit}`;
}
const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");
const many = (n, one, more) => `${n} ${n === 1 ? one : more || `${one}s`}`;

function nameOf(server) {
  const found = state.names && state.names.servers.find((it) => it.server === server);
  return found ? found.name : `server ${server}`;
}
function tenantOf(number) {
  const found = state.names && state.names.tenants.find((it) => it.tenant === number);
  return found ? found.name : "";
}
// What all names begin with says nothing.
function shortNames(servers) {
  const names = servers.map((it) => nameOf(it.server));
  let same = names[0] ? names[0].length : 0;
  for (const name of names) while (!name.startsWith(names[0].slice(0, same))) same -= 1;
  while (same > 0 && /\w/.test(names[0][same - 1])) same -= 1;
  if (names.length < 2 || servers.length <= 16) same = 0;
  return names.map((name) => (name.length - same > 12 ? `${name.slice(same, same + 11)}…` : name.slice(same)));
}

// Redraws a part only when what it shows has changed.
function changed(part, ...shown) {
  const now = JSON.stringify(shown);
  if (state.drawn[part] === now) return false;
  state.drawn[part] = now;
  return true;
}

function head(status) {
  $("region").textContent = status.region;
  document.title = `${status.alarms.length ? `(${status.alarms.length}) ` : ""}${status.region} · Lightloom`;
  $("phase").textContent = status.phase;
  $("phase").className = `pill ${status.phase === "idle" || status.phase === "starting" ? status.phase : "busy"}`;
  const all = status.confirmed_generation === status.generation;
  $("plan").textContent = all ? `plan ${status.generation}, confirmed by all`
    : `plan ${status.generation}: verified ${status.verified_generation}, confirmed ${status.confirmed_generation}`;
  const how = (it) => it.up ? (it.read ? "up" : "up, not read yet") : "down";
  const wrong = status.switches.filter((it) => !(it.up && it.read));
  // Of many switches those that are not in order, each by its number.
  const shown = status.switches.length === 1 ? status.switches : wrong;
  const one = (it) => `${it.device || "switch"}, ${it.ports} ports: ${how(it)}`;
  const many = `${status.switches.length} switches, ${status.switches.length - wrong.length} up`;
  const rest = shown.map((it) => `${state.names?.switches?.[it.switch] ?? it.switch} ${how(it)}`);
  $("switch").textContent = status.switches.length === 1 ? one(status.switches[0]) : [many, ...rest].join(", ");
  $("switch").className = wrong.length ? "wrong" : "quiet";
  $("role").textContent = `you are ${status.role === "operator" ? "an operator" : `a ${status.role}`}; up for ${long(status.now / 1e12)}`;
}

// Of many alarms of one name, how many there are and the one that stands longest.
function gathered(all) {
  const names = [...new Set(all.map((it) => it.name))];
  return names.flatMap((name) => {
    const group = all.filter((it) => it.name === name);
    if (group.length <= 3) return group;
    const oldest = group.reduce((a, b) => (b.since < a.since ? b : a));
    return [{ ...oldest, text: `${oldest.text}, and ${group.length - 1} more` }];
  });
}

function alarms(status) {
  const box = $("alarms");
  box.className = status.alarms.length ? "loud" : "calm";
  box.replaceChildren(...gathered(status.alarms).map((it) => make("div", { class: "alarm" },
    make("b", {}, it.name), make("span", {}, it.text),
    make("time", { class: "quiet" }, `for ${span(Math.max(0, status.now - it.since))}`))));
  if (!status.alarms.length) box.append("No alarms");
}

function figures(status) {
  const present = status.servers.filter((it) => it.present).length;
  const blocked = status.servers.flatMap((it) => it.blocked).filter(Boolean).length;
  const ports = status.servers.reduce((sum, it) => sum + it.blocked.length, 0);
  const counts = status.counters;
  const totals = state.changes.filter((it) => it.confirmed !== null).map((it) => it.confirmed).sort((a, b) => a - b);
  const cells = [
    [`${present}/${status.servers.length}`, "servers present", present < status.servers.length],
    [status.circuits.length, "circuits"],
    [blocked ? `${blocked}/${ports}` : "0", "ports out of use", blocked > 0],
    [totals.length ? span(totals[totals.length >> 1]) : "–", "median change"],
  ];
  if (counts) cells.push([counts.plans, "plans"], [counts.patches, "patches"], [counts.retries, "retries"],
    [counts.withdrawals, "withdrawals"]);
  $("figures").replaceChildren(...cells.map(([value, label, wrong]) =>
    make("div", {}, make("b", wrong ? { class: "wrong" } : {}, String(value)), label)));
}

// Servers on a ring, and a chord for each pair that has circuits.
function ring(status) {
  const servers = status.servers;
  $("circuits-note").textContent = `${many(status.circuits.length, "circuit")} of plan ${status.verified_generation}`;
  if (!changed("ring", status.circuits, servers.map((it) => it.present), state.names)) return;
  const n = servers.length, middle = 220, radius = n > 32 ? 184 : n > 16 ? 176 : 156;
  const place = (at, r) => {
    const angle = (2 * Math.PI * at) / n - Math.PI / 2;
    return [middle + r * Math.cos(angle), middle + r * Math.sin(angle), angle];
  };
  const index = new Map(servers.map((it, at) => [it.server, at]));
  const pairs = new Map();
  for (const it of status.circuits) {
    const key = `${it.a[0]} ${it.b[0]}`;
    pairs.set(key, (pairs.get(key) || 0) + 1);
  }
  const drawing = $("ring");
  drawing.setAttribute("aria-label", `Circuits between servers: ${many(pairs.size, "pair")} of ${many(n, "server")} joined`);
  drawing.replaceChildren();
  for (const [key, count] of [...pairs].sort((a, b) => a[1] - b[1])) {
    const [a, b] = key.split(" ").map(Number);
    if (!index.has(a) || !index.has(b)) continue;
    const [x1, y1] = place(index.get(a), radius), [x2, y2] = place(index.get(b), radius);
    // Neighbours' chords bend less than those across.
    const near = Math.min(1, Math.hypot(x1 - x2, y1 - y2) / radius);
    const pull = 0.25 + 0.5 * near;
    const [cx, cy] = [middle * pull + ((x1 + x2) / 2) * (1 - pull), middle * pull + ((y1 + y2) / 2) * (1 - pull)];
    const chord = make("path", { class: "chord", "data-ends": key, d: `M${x1} ${y1}Q${cx} ${cy} ${x2} ${y2}`,
      "stroke-width": (n > 96 ? 0.5 : n > 32 ? 0.9 : 1.6) * count, opacity: n > 96 ? 0.35 : n > 32 ? 0.55 : 0.7 });
    chord.append(make("title", {}, `${nameOf(a)} – ${nameOf(b)}: ${many(count, "circuit")}`));
    drawing.append(chord);
  }
  const names = shortNames(servers), every = Math.ceil(n / 96);
  servers.forEach((it, at) => {
    const [x, y] = place(at, radius);
    const dot = make("circle", { class: it.present ? "node" : "node off", cx: x, cy: y, r: n > 96 ? 2.5 : n > 32 ? 4 : 6 });
    const [tx, ty, angle] = place(at, radius + (n > 32 ? 8 : 13));
    const left = Math.cos(angle) < -0.01;
    const turn = n > 16 ? ` rotate(${(angle * 180) / Math.PI + (left ? 180 : 0)})` : "";
    const anchor = n > 16 ? (left ? "end" : "start") : Math.abs(Math.cos(angle)) < 0.2 ? "middle" : left ? "end" : "start";
    const drop = n > 16 ? 3 : Math.abs(Math.cos(angle)) < 0.2 ? (Math.sin(angle) > 0 ? 9 : -2) : 3;
    const label = make("text", { class: it.present ? "" : "off", transform: `translate(${tx} ${ty})${turn}`,
      dy: drop, "text-anchor": anchor }, names[at]);
    for (const part of [dot, label]) follow(part, it.server);
    drawing.append(dot);
    if (at % every === 0 || !it.present) drawing.append(label);
  });
  point();
}

// A square for each pair of servers; those that have circuits wear a frame.
function heat(status) {
  const { servers, demand } = status;
  const most = Math.max(0, ...demand.bytes.map((row) => Math.max(0, ...row)));
  const total = demand.bytes.reduce((sum, row) => row.reduce((a, b) => a + b, sum), 0);
  $("demand-note").textContent = total
    ? `${bytes(total)} in round ${demand.rounds.join(", ")}; at most ${bytes(most)} a pair` : "none reported";
  if (!changed("heat", demand.bytes, status.circuits, state.names)) return;
  // Of very many servers, some share a row.
  const share = Math.ceil(servers.length / 96), n = Math.ceil(servers.length / share);
  const part = new Map(servers.map((it, at) => [it.server, Math.floor(at / share)]));
  const sums = Array.from({ length: n }, () => new Array(n).fill(0));
  demand.bytes.forEach((row, r) => row.forEach((value, c) => { sums[Math.floor(r / share)][Math.floor(c / share)] += value; }));
  const top = Math.max(...sums.map((row) => Math.max(...row)));
  const circuits = new Set(status.circuits.flatMap(({ a, b }) => [`${part.get(a[0])} ${part.get(b[0])}`, `${part.get(b[0])} ${part.get(a[0])}`]));
  const short = shortNames(servers), drawing = $("heat");
  const first = (at) => servers[at * share];
  const title = (at) => nameOf(first(at).server) + (share > 1 ? ` and ${share - 1} more` : "");
  const from = n > 16 ? 34 : 74, size = ((n > 16 ? 438 : 414) - from) / n, gap = n > 32 ? 0.25 : 1, inset = n > 32 ? 0.5 : 1;
  const every = n > 32 ? Math.ceil(n / 16) : 1;
  drawing.replaceChildren();
  const frames = make("g");
  for (let r = 0; r < n; r += 1) {
    for (let c = 0; c < n; c += 1) {
      if (r === c && share === 1) continue;
      const [x, y, side] = [from + c * size + gap, from + r * size + gap, size - 2 * gap];
      const shade = top ? Math.round(100 * Math.sqrt(sums[r][c] / top)) : 0; // small ones are seen, too
      const cell = make("rect", { x, y, width: side, height: side, rx: n > 32 ? 0 : 2, "data-cell": `${r} ${c}`,
        style: `fill: color-mix(in oklab, var(--heat-high) ${shade}%, var(--heat-low))` });
      const joined = share === 1 && circuits.has(`${r} ${c}`);
      cell.append(make("title", {}, `${title(r)} to ${title(c)}: ${bytes(sums[r][c])}${joined ? ", over circuits" : ""}`));
      drawing.append(cell);
      if (joined) frames.append(make("rect", { class: "cross", x: x + inset, y: y + inset, width: side - 2 * inset,
        height: side - 2 * inset, rx: n > 32 ? 0 : 2, "stroke-width": n > 32 ? 0.9 : 2 }));
    }
    if (r % every) continue;
    const at = from + (r + 0.5) * size;
    const side = make("text", { x: from - 5, y: at + 3.5, "text-anchor": "end" }, short[r * share]);
    const above = make("text", { transform: `translate(${at + (n > 16 ? 3.5 : 0)} ${from - 5}) rotate(${n > 16 ? -90 : -40})` }, short[r * share]);
    for (const label of [side, above]) follow(label, first(r).server);
    drawing.append(side, above);
  }
  drawing.append(frames);
  drawing.append(make("text", { x: 4, y: 12 }, "from ↓ to →"));
  point();
}

// Pointing at a server shows its circuits, and so does going to it with the keyboard.
function follow(part, server) {
  part.dataset.server = server;
  part.addEventListener("mouseenter", () => { state.pointed = server; point(); });
  part.addEventListener("mouseleave", () => { state.pointed = null; point(); });
  part.addEventListener("focus", () => { state.pointed = server; point(); });
  part.addEventListener("blur", () => { state.pointed = null; point(); });
}
function point() {
  const it = state.pointed;
  for (const chord of document.querySelectorAll(".chord"))
    chord.classList.toggle("dim", it !== null && !chord.dataset.ends.split(" ").map(Number).includes(it));
  for (const part of document.querySelectorAll("[data-server]"))
    part.classList.toggle("on", Number(part.dataset.server) === it);
}

const stagesOf = (log) => {
  const patched = Math.max(log.patched, log.drained);
  const ends = [log.drained, patched, log.verified, log.confirmed === null ? log.verified : log.confirmed];
  return ends.map((end, at) => Math.max(0, end - (at ? ends[at - 1] : 0)));
};

function changes() {
  const rows = state.changes.slice(-ROWS).reverse();
  if (!changed("changes", rows)) return;
  const most = Math.max(1, ...rows.map((it) => stagesOf(it).reduce((a, b) => a + b)));
  $("changes").tBodies[0].replaceChildren(...rows.map((log) => {
    const said = stagesOf(log).map((time, at) => `${STAGES[at]} ${span(time)}`).join(", ");
    const bars = make("svg", { viewBox: "0 0 500 14", preserveAspectRatio: "none", role: "img", "aria-label": said });
    let x = 0;
    stagesOf(log).forEach((time, at) => {
      const width = (500 * time) / most;
      const bar = make("rect", { x, y: 2, width, height: 10, style: `fill: var(--${STAGES[at]})` });
      bar.append(make("title", {}, `${STAGES[at]}: ${span(time)}`));
      bars.append(bar);
      x += width;
    });
    const cell = (text) => make("td", {}, text === undefined ? "–" : String(text));
    const total = log.confirmed === null ? "overtaken" : span(log.confirmed);
    return make("tr", {}, cell(log.generation), cell(clock(log.unix_ms)), make("td", { class: "bars" }, bars),
      cell(total), cell(log.changed_ports), cell(log.patches), cell(log.attempts), cell(log.circuits));
  }));
  if (!rows.length) $("changes").tBodies[0].append(make("tr", {}, make("td", { colspan: 8, class: "quiet" }, "none yet")));
}

function servers(status) {
  const away = status.servers.filter((it) => !it.present).length;
  $("servers-note").textContent = `${status.servers.length}${away ? `, ${away} silent` : ""}`;
  const several = state.names && state.names.tenants.length > 1;
  const rows = status.servers.map((it) => [it.server, it.present, it.circuits, it.blocked, it.faults, it.round, it.tenant,
    it.present ? null : it.heard === null ? "never heard" : `heard ${span(Math.max(0, status.now - it.heard))} ago`]);
  if (!changed("servers", rows, state.names)) return;
  $("servers").replaceChildren(...status.servers.map((it, at) => {
    const ports = make("div", { class: "ports" }, ...it.circuits.map((peer, port) => {
      const kind = it.blocked[port] ? "blocked" : peer ? "joined" : "";
      const what = it.blocked[port] ? "out of use" : peer ? `to ${nameOf(peer[0])}, port ${peer[1]}` : "free";
      return make("i", { class: `port ${kind}`, title: `port ${port}: ${what}`, role: "img", "aria-label": `port ${port}: ${what}` });
    }));
    const faults = it.faults.map((part) => (typeof part === "string" ? part : Object.entries(part)[0].join(" ")));
    const said = rows[at][7] || (it.round === null ? "no demand yet" : `round ${it.round}`);
    const tile = make("div", { class: `server ${it.present ? "" : "off"}`, tabindex: 0, role: "group", "aria-label": nameOf(it.server) },
      make("div", { class: "name" }, make("i", { class: "dot" }), make("span", { title: nameOf(it.server) }, nameOf(it.server))),
      make("div", { class: "quiet" }, several ? `${tenantOf(it.tenant)} · ${said}` : said), ports);
    if (faults.length) tile.append(make("div", { class: "wrong" }, `failed: ${faults.join(", ")}`));
    follow(tile, it.server);
    return tile;
  }));
}

function events() {
  const last = state.events.slice(-14).reverse();
  if (!changed("events", last)) return;
  const words = (it) => ({
    "raised": () => it.text, "cleared": () => it.text, "note": () => it.text,
    "withdrawn": () => `no circuit may be used${it.why ? `: ${it.why}` : ""}`,
    "reconfigured": () => `plan ${it.generation}${it.changed_ports === undefined ? "" : `: ${many(it.changed_ports, "port")} changed`}${
      it.confirmed === null ? ", overtaken" : `, ${span(it.confirmed)}`}`,
  }[it.event] || (() => ""))();
  $("events").replaceChildren(...last.map((it) => make("li", {}, make("time", {}, clock(it.unix_ms)),
    make("span", { class: `kind${it.event === "raised" || it.event === "withdrawn" ? " wrong" : ""}` }, it.event), make("span", {}, words(it)))));
  if (!last.length) $("events").append(make("li", { class: "quiet" }, "nothing has happened yet"));
}

async function ask(path) {
  const headers = state.token ? { Authorization: `Bearer ${state.token}` } : {};
  const answer = await fetch(path, { headers, signal: AbortSignal.timeout(5000) });
  if (!answer.ok) throw Object.assign(new Error(`${answer.status}`), { status: answer.status });
  return answer.json();
}

async function refresh() {
  try {
    const status = await ask("/v1/status");
    if (status.started_unix_ms !== state.started) {
      Object.assign(state, { started: status.started_unix_ms, since: 0, events: [], changes: [], names: null });
    }
    if (!state.names) state.names = await ask("/v1/names");
    const news = await ask(`/v1/events?since=${state.since}&limit=300`);
    state.since = news.last;
    state.events = [...state.events, ...news.events].slice(-300);
    state.changes = [...state.changes, ...news.events.filter((it) => it.event === "reconfigured")].slice(-100);
    $("login").hidden = true;
    $("all").hidden = false;
    $("all").classList.remove("stale");
    for (const part of [head, alarms, figures, ring, heat, servers]) part(status);
    changes();
    events();
    state.last = Date.now();
    $("fresh").textContent = "live";
    $("fresh").className = "quiet";
  } catch (error) {
    if (error.status === 401) {
      $("login").hidden = false;
      $("all").hidden = true;
      $("refused").textContent = state.token ? "That token is not known here." : "";
    } else {
      $("all").classList.add("stale");
      $("fresh").textContent = state.last ? `no answer since ${clock(state.last)}` : "no answer";
      $("fresh").className = "wrong";
      console.error(error);
    }
  }
  setTimeout(refresh, document.hidden ? 5000 : 1000);
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  state.token = $("token").value.trim();
  sessionStorage.setItem("token", state.token);
});
$("stages").replaceChildren(...STAGES.flatMap((it) => [make("i", { style: `background: var(--${it})` }), it]));
refresh();

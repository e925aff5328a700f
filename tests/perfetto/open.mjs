// Opens traces with Perfetto's own trace processor (WebAssembly) and prints, as one line of JSON, what
// it found in each: `node open.mjs ASSETS TRACE...`. Exit status 1 where one cannot be opened.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import vm from "node:vm";

const [assets, ...traces] = process.argv.slice(2);
const wasm = readFileSync(join(assets, "trace_processor.wasm"));
const glue = readFileSync(join(assets, "engine_bundle.node.js"), "utf8");
const { EngineBase } = await import(pathToFileURL(join(assets, "engine.mjs")).href);

// What the user interface runs in a worker runs here. The worker fetches its code while it starts.
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = class {};
globalThis.location = { href: `${pathToFileURL(assets).href}/` };
globalThis.XMLHttpRequest = class {
  open() {}
  send() { this.response = wasm.buffer.slice(wasm.byteOffset, wasm.byteOffset + wasm.byteLength); }
};
console.warn = () => {};

class Engine extends EngineBase {
  mode = "WASM";
  id = "tests";
  constructor(port) {
    super();
    this.port = port;
    port.onmessage = ({ data }) => this.onRpcResponseBytes(data);
  }
  rpcSendRequestBytes(data) { this.port.postMessage(data); }
  [Symbol.dispose]() { this.port.close(); }
}

async function rows(engine, sql) {
  const result = await engine.query(sql);
  if (result.error()) throw new Error(result.error());
  const found = [];
  for (const it = result.iter({}); it.valid(); it.next())
    found.push(Object.fromEntries(result.columns().map((name) => [name, typeof it.get(name) === "bigint" ? Number(it.get(name)) : it.get(name)])));
  return found;
}

async function opened(trace) {
  vm.runInThisContext(glue, { filename: "engine_bundle.js" });
  const { port1, port2 } = new MessageChannel();
  globalThis.onmessage({ data: port1 });
  const engine = new Engine(port2);
  await engine.parse(new Uint8Array(readFileSync(trace)));
  await engine.notifyEof();
  const bad = await rows(engine, "select name, value from stats where severity in ('error', 'data_loss') and value > 0");
  const [slices] = await rows(engine, "select count() as count, sum(dur) as ns, max(ts + dur) as end from slice");
  const [counters] = await rows(engine, "select count() as count from counter");
  const processes = await rows(engine, "select name from process where name is not null order by upid");
  const threads = await rows(engine, "select name from thread where name is not null order by utid");
  port2.close();
  return { trace, bad, slices, counters: counters.count, processes: processes.map((it) => it.name), threads: threads.map((it) => it.name) };
}

try {
  for (const trace of traces) console.log(JSON.stringify(await opened(trace)));
  process.exit(0);
} catch (error) {
  console.error(error);
  process.exit(1);
}

import { closeSync, fdatasyncSync, mkdtempSync, openSync, readdirSync, rmSync, statSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { constants, zstdCompressSync } from "node:zlib";
import { type JsonObject, deepFreeze } from "@holdfast/core/json";
import { type Planes, emptyPlanes } from "@holdfast/core/checkpoint";
import type { Lease } from "@holdfast/core/lease";
import type { Store } from "@holdfast/core/store";
import { openDurableStore } from "@holdfast/test-support/durable-stores";

/**
 * What the embedded store costs above the least that any durable store on SQLite can cost.
 *
 * The baseline is one prepared `INSERT INTO t (body) VALUES (?)` in autocommit on its own database with
 * journal_mode=WAL and synchronous=FULL, through node:sqlite: one write to the log, one sync. Ours and the baseline take
 * turns in one loop, so that whatever else the machine does hits both alike. Figures are medians.
 *
 *   [HOLDFAST_TEST_STORE=sql] node bench/store.ts [rounds]
 */
const rounds = Number(process.argv[2] ?? 2000);
const directory = mkdtempSync(join(tmpdir(), "holdfast-bench-"));

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

function rawDatabase(name: string): (body: Uint8Array | string) => void {
  const db = new DatabaseSync(join(directory, `${name}.db`));
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t (id INTEGER PRIMARY KEY, body)");
  const insert = db.prepare("INSERT INTO t (body) VALUES (?)");
  return (body) => void insert.run(body);
}

function planesOf(values: JsonObject, iteration: number): Planes {
  const empty = emptyPlanes({ workflow: "bench", stage: "code" });
  return { ...empty, position: { ...empty.position, iteration }, context: { ...empty.context, values } };
}

async function leased(store: Store, run: string): Promise<Lease> {
  await store.createRun({ id: run, workflow: "bench", work: { kind: "none" } });
  return store.takeLease({ run, label: "bench" });
}

async function timed(samples: number[], work: () => unknown): Promise<void> {
  const start = performance.now();
  await work();
  samples.push((performance.now() - start) * 1000);
}

function median(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? Number.NaN;
}

function low(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 10)] ?? Number.NaN;
}

function mean(samples: readonly number[]): number {
  return samples.reduce((sum, sample) => sum + sample, 0) / samples.length;
}

function report(what: string, ours: readonly number[], base: readonly number[], target: number): void {
  const ratio = median(ours) / median(base);
  const figures = `${median(ours).toFixed(1)} µs against ${median(base).toFixed(1)} µs`;
  const best = `(10th percentile ${low(ours).toFixed(1)} against ${low(base).toFixed(1)})`;
  print(`${what}: ×${ratio.toFixed(2)} (target ≤ ×${target}), ${figures} ${best}`);
}

let seed = 1;
function random(): number {
  seed = (seed + 0x6d2b79f5) | 0;
  let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
}

const WORDS =
  "the function returns an error when a file is missing so we should check path before reading and then update test cases for module export const await store value number string tool call result output diff patch line import class type".split(
    " ",
  );

/** Text that compresses about as well as an agent's transcript does. */
function prose(length: number): string {
  let text = "";
  while (text.length < length) {
    text +=
      random() < 0.12
        ? `${Math.floor(random() * 1e6).toString(36)} `
        : `${WORDS[Math.floor(random() * WORDS.length)]} `;
  }
  // Flat, as text from a process or the network is.
  return Buffer.from(text.slice(0, length)).toString();
}

function message(length: number): JsonObject {
  return {
    role: random() < 0.5 ? "user" : "assistant",
    id: `msg_${Math.floor(random() * 1e12).toString(36)}`,
    content: [{ type: "text", text: prose(length) }],
  };
}

/** Short remarks, longer answers and tool output in turn, about as many bytes as asked for. */
function messages(bytes: number): JsonObject[] {
  const list: JsonObject[] = [];
  for (let left = bytes; left > 0;) {
    const kind = random();
    const length = kind < 0.4 ? 150 + random() * 250 : kind < 0.8 ? 600 + random() * 1400 : 3000 + random() * 5000;
    list.push(message(Math.min(Math.floor(length), left)));
    left -= length + 100;
  }
  return list;
}

/** What the disk asks for a flush: what a save costs above the raw insert is processor time, what a group saves is this. */
async function bareFlush(): Promise<void> {
  const file = openSync(join(directory, "flush"), "w");
  const block = Buffer.alloc(4096, 1);
  const times: number[] = [];
  for (let i = 0; i < rounds; i++) {
    await timed(times, () => {
      writeSync(file, block, 0, block.length, (i % 256) * block.length);
      fdatasyncSync(file);
    });
  }
  closeSync(file);
  print(`Write of 4 KB and a bare flush: ${median(times).toFixed(1)} µs`);
}

async function smallSaves(): Promise<void> {
  const store = await openDurableStore({ directory: join(directory, "small") });
  const lease = await leased(store, "small");
  const raw = rawDatabase("raw-small");
  const ours: number[] = [];
  const base: number[] = [];
  let bytes = 0;
  for (let i = 1; i <= rounds; i++) {
    const planes = planesOf({ note: prose(300), n: i }, i);
    const body = JSON.stringify(planes);
    bytes = body.length;
    await timed(base, () => raw(body));
    await timed(ours, () => store.commit({ lease, checkpoint: { trigger: "automatic", planes } }));
  }
  report(`Save of a ${(bytes / 1024).toFixed(1)} KB state`, ours.slice(rounds / 10), base.slice(rounds / 10), 1.3);
  await store.close();
}

async function stepEntries(): Promise<void> {
  const store = await openDurableStore({ directory: join(directory, "entries") });
  const lease = await leased(store, "entries");
  const raw = rawDatabase("raw-entries");
  const ours: number[] = [];
  const base: number[] = [];
  for (let i = 1; i <= rounds; i++) {
    const body = { visit: 1, step: `step ${i}`, result: { text: prose(180) }, spent: null };
    await timed(base, () => raw(JSON.stringify(body)));
    await timed(ours, () => store.commit({ lease, entries: [{ kind: "step.finished", body }] }));
  }
  report("Entry of a finished step", ours.slice(rounds / 10), base.slice(rounds / 10), 2.2);
  await store.close();
}

/**
 * What a save adds is compressed after it, together with a dozen others, when the event loop turns; here that falls into
 * a save that happens to wait for such a turn. The median does not show it, the mean does.
 *
 * "mutable", the natural way: a program holds its messages as plain live objects and pushes to one array; nothing tells
 * the store what changed, and any of them may have. "frozen": each message is frozen through and through, each array new.
 */
async function growingTranscript(style: "mutable" | "frozen"): Promise<void> {
  const name = `transcript-${style}`;
  const store = await openDurableStore({ directory: join(directory, name) });
  const lease = await leased(store, name);
  const raw = rawDatabase(`raw-${name}`);
  const ours: number[] = [];
  const base: number[] = [];
  const turns = Math.max(Math.floor(rounds / 4), 100);
  const made = (bytes: number): JsonObject[] => {
    const list = messages(bytes);
    return style === "frozen" ? list.map((each) => deepFreeze(each)) : list;
  };
  let live = made(1_000_000);
  await store.commit({ lease, checkpoint: { trigger: "automatic", planes: planesOf({ messages: live }, 0) } });
  const before = diskBytes(join(directory, name), store);
  let compressed = 0;
  for (let i = 1; i <= turns; i++) {
    // Context compaction: the transcript stays between one and two megabytes.
    const drop = i % 100 === 0 ? live.length >> 1 : 0;
    const fresh = made(10_000);
    if (style === "frozen") live = [...live.slice(drop), ...fresh];
    else {
      live.splice(0, drop);
      live.push(...fresh);
    }
    const body = JSON.stringify(fresh);
    compressed += zstdCompressSync(body, { params: { [constants.ZSTD_c_compressionLevel]: 3 } }).length;
    const planes = planesOf({ messages: live }, i);
    await timed(base, () => raw(body));
    await timed(ours, () => store.commit({ lease, checkpoint: { trigger: "automatic", planes } }));
  }
  report(`1 MB transcript growing by 1 %, ${style} messages`, ours.slice(turns / 4), base.slice(turns / 4), 2);
  print(
    `  mean ${mean(ours).toFixed(0)} µs against ${mean(base).toFixed(0)} µs, with the compression of earlier saves in it`,
  );
  const added = diskBytes(join(directory, name), store) - before;
  print(
    `  on disk ${Math.round(added / turns)} bytes a checkpoint, ×${(added / compressed).toFixed(2)} of the new bytes under zstd 3 (target ≤ ×1.5)`,
  );
  await store.close();
}

/** Pages in use, as if the log had been written back, and blob files. */
function diskBytes(path: string, store: Store): number {
  const db = new DatabaseSync(join(store.location, "store.db"), { readOnly: true });
  const number = (name: string): number => Number(Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {})[0]);
  const pages = (number("page_count") - number("freelist_count")) * number("page_size");
  db.close();
  let blobs = 0;
  for (const entry of readdirSync(path, { recursive: true, withFileTypes: true })) {
    if (entry.isFile() && entry.parentPath.includes("blobs"))
      blobs += statSync(join(entry.parentPath, entry.name)).size;
  }
  return pages + blobs;
}

async function concurrentSavers(): Promise<void> {
  const savers = 64;
  const store = await openDurableStore({ directory: join(directory, "many") });
  const leases: Lease[] = [];
  for (let i = 0; i < savers; i++) leases.push(await leased(store, `run-${i}`));
  const single = await leased(store, "single");
  const bodies = Array.from({ length: 256 }, () => prose(300));
  const one: number[] = [];
  const group: number[] = [];
  const saveOf = (lease: Lease, i: number): Promise<unknown> =>
    store.commit({
      lease,
      checkpoint: { trigger: "automatic", planes: planesOf({ note: bodies[i % 256] ?? "", n: i }, i) },
    });
  const turns = Math.max(Math.floor(rounds / 20), 20);
  for (let turn = 0; turn < turns; turn++) {
    await timed(one, async () => {
      for (let i = 0; i < 16; i++) await saveOf(single, turn * 16 + i);
    });
    await timed(group, () =>
      Promise.all(
        leases.map(async (lease) => {
          for (let i = 0; i < 4; i++) await saveOf(lease, turn * 4 + i);
        }),
      ),
    );
  }
  const each = median(one.slice(2)) / 16;
  const shared = median(group.slice(2)) / (savers * 4);
  print(
    `64 concurrent savers: ×${(each / shared).toFixed(1)} the rate of one at a time (target ≥ ×10), ${shared.toFixed(1)} µs a save against ${each.toFixed(1)} µs`,
  );
  await store.close();
}

async function longHistory(): Promise<void> {
  const store = await openDurableStore({ directory: join(directory, "long") });
  const short = await leased(store, "short");
  const long = await leased(store, "long");
  const fill = async (lease: Lease, count: number): Promise<void> => {
    for (let i = 0; i < count; i += 500) {
      const size = Math.min(500, count - i);
      await Promise.all(
        Array.from({ length: size }, (_, k) =>
          store.commit({
            lease,
            checkpoint: { trigger: "automatic", planes: planesOf({ n: i + k, note: "x".repeat(200) }, i + k) },
          }),
        ),
      );
    }
  };
  await fill(short, 100);
  await fill(long, rounds >= 1000 ? 100_000 : 10_000);
  const samples = {
    latestShort: [] as number[],
    latestLong: [] as number[],
    listShort: [] as number[],
    listLong: [] as number[],
  };
  for (let i = 0; i < 1000; i++) {
    await timed(samples.latestShort, () => store.latest("short"));
    await timed(samples.latestLong, () => store.latest("long"));
    await timed(samples.listShort, () => store.listCheckpoints({ run: "short", limit: 10 }));
    await timed(samples.listLong, () => store.listCheckpoints({ run: "long", limit: 10 }));
  }
  report("latest at 100,000 checkpoints against 100", samples.latestLong, samples.latestShort, 2);
  report("listCheckpoints({ limit: 10 }) at 100,000 against 100", samples.listLong, samples.listShort, 2);
  await store.close();
}

try {
  print(
    `Node ${process.version}, SQLite ${process.versions["sqlite"] ?? "?"}, ${rounds} rounds; baseline: autocommit INSERT, WAL, synchronous=FULL`,
  );
  await bareFlush();
  await smallSaves();
  await stepEntries();
  await growingTranscript("mutable");
  await growingTranscript("frozen");
  await concurrentSavers();
  await longHistory();
} finally {
  rmSync(directory, { recursive: true, force: true });
}

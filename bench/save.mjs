/**
 * What a durable save costs: of a 1 KB state, by 64 runs at once, and of a 1 MB transcript that grew by 1 %. The baseline is one prepared
 * INSERT of the same bytes in autocommit, SQLite WAL, synchronous=FULL. Both take turns in one loop, so that the load of the machine
 * affects both alike. What a save costs above the insert is mostly processor time; what writers at once save is disk time.
 *
 *   node bench/save.mjs [rounds]
 */
import "./supported-node.mjs";
import { closeSync, fdatasyncSync, mkdtempSync, openSync, readdirSync, rmSync, statSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import zlib from "node:zlib";
import { print, printLoad, printTarget, quantile, spread } from "./report.mjs";

const { open } = await import("holdfast");
const { openRaw } = await import("./peers/raw.mjs");
const rounds = Number(process.argv[2] ?? 1000);
const directory = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
try {
  printLoad();
  bareFlush();
  await smallSaves();
  await manyWriters();
  await growingTranscript();
  printLoad();
} finally {
  rmSync(directory, { recursive: true, force: true });
}

/** The time that the disk needs for a flush, to judge the other figures by. */
function bareFlush() {
  const file = openSync(join(directory, "flush"), "w");
  const block = Buffer.alloc(4096, 1);
  const times = [];
  for (let round = 0; round < rounds; round += 1) {
    timeSync(times, () => {
      writeSync(file, block, 0, block.length, (round % 256) * block.length);
      fdatasyncSync(file);
    });
  }
  closeSync(file);
  print(`write of 4 KB and a flush: ${spread(times)} µs`);
}

async function smallSaves() {
  const holdfast = await open({ cwd: directory, store: join(directory, "small") });
  const run = await holdfast.createRun({ id: "small" });
  const insert = openRaw(join(directory, "raw-small.db"));
  const [ours, raw] = [[], []];
  for (let round = 0; round < rounds; round += 1) {
    const values = { note: prose(1000), round };
    timeSync(raw, () => insert(JSON.stringify(values)));
    await time(ours, () => run.save({ values }));
  }
  await holdfast.close();
  const [saves, inserts] = [ours, raw].map((times) => times.slice(rounds / 10));
  print(`save of a 1 KB state: ${spread(saves)} µs; raw insert: ${spread(inserts)} µs`);
  const value = quantile(saves, 0.5) / quantile(inserts, 0.5);
  printTarget({ what: "a durable 1 KB save / a raw durable insert", value, unit: "×", atMost: 2.5 });
}

async function manyWriters() {
  const [writers, saves] = [64, 4];
  const holdfast = await open({ cwd: directory, store: join(directory, "many") });
  const runs = await Promise.all(Array.from({ length: writers }, (_, at) => holdfast.createRun({ id: `run-${at}` })));
  const rates = [];
  for (let round = 0; round < Math.max(20, rounds / 20); round += 1) {
    const notes = Array.from({ length: saves }, () => prose(1000));
    const began = performance.now();
    await Promise.all(
      runs.map(async (run) => {
        for (const note of notes) await run.save({ values: { note, round } });
      }),
    );
    rates.push((writers * saves * 1000) / (performance.now() - began));
  }
  await holdfast.close();
  const measured = rates.slice(rates.length / 10);
  print(`64 writers: ${spread(measured)} saves/s`);
  printTarget({ what: "saves of 64 writers", value: quantile(measured, 0.5), unit: "/s", atLeast: 10_000 });
}

async function growingTranscript() {
  const place = join(directory, "transcript");
  const turns = Math.max(100, Math.floor(rounds / 4));
  const messages = messagesOf(1_000_000);
  const times = [];
  let compressed = 0;
  const save = async (work) => {
    const holdfast = await open({ cwd: directory, store: place });
    const run =
      (await holdfast.listRuns()).length === 0 ? await holdfast.createRun({ id: "t" }) : await holdfast.run("t");
    await work(run);
    await holdfast.close();
  };
  await save((run) => run.save({ values: { messages } }));
  const before = bytesIn(place);
  await save(async (run) => {
    await run.save({ values: { messages } });
    for (let turn = 1; turn <= turns; turn += 1) {
      // The agent compacts its context now and then, so the transcript stays between one and two megabytes.
      if (turn % 100 === 0) messages.splice(0, messages.length >> 1);
      const fresh = messagesOf(10_000);
      messages.push(...fresh);
      compressed += zlib.zstdCompressSync(JSON.stringify(fresh)).length;
      await time(times, () => run.save({ values: { messages } }));
    }
  });
  const measured = times.slice(turns / 4);
  print(`1 MB transcript that grew by 1 %: ${spread(measured)} µs`);
  printTarget({ what: "save of it", value: quantile(measured, 0.5) / 1000, unit: "ms", atMost: 4 });
  const value = (bytesIn(place) - before) / compressed;
  printTarget({ what: "its disk bytes / the compressed new bytes", value, unit: "×", atMost: 2.5 });
}

function bytesIn(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== "reserve")
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}

function timeSync(times, work) {
  const began = performance.now();
  work();
  times.push((performance.now() - began) * 1000);
}

async function time(times, work) {
  const began = performance.now();
  await work();
  times.push((performance.now() - began) * 1000);
}

/** Short remarks, longer answers and tool output, as many bytes as asked for. */
function messagesOf(bytes) {
  const list = [];
  for (let left = bytes; left > 0;) {
    const kind = random();
    const length = kind < 0.4 ? 150 + random() * 250 : kind < 0.8 ? 600 + random() * 1400 : 3000 + random() * 5000;
    const text = prose(Math.min(Math.floor(length), left));
    list.push({ role: random() < 0.5 ? "user" : "assistant", content: [{ type: "text", text }] });
    left -= length + 100;
  }
  return list;
}

/** Text that compresses about as well as an agent's transcript. */
function prose(length) {
  const words =
    "the function returns an error when a file is missing so we should check path before reading and then update test cases for module export const await store value number string tool call result output diff patch line import class type".split(
      " ",
    );
  let text = "";
  while (text.length < length)
    text +=
      random() < 0.12
        ? `${Math.floor(random() * 1e6).toString(36)} `
        : `${words[Math.floor(random() * words.length)]} `;
  // Flat, as text from a process or the network is.
  return Buffer.from(text.slice(0, length)).toString();
}

/** A fixed sequence (mulberry32), so that every run measures the same texts. */
function random() {
  random.seed = ((random.seed ?? 1) + 0x6d2b79f5) | 0;
  let mixed = Math.imul(random.seed ^ (random.seed >>> 15), 1 | random.seed);
  mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
}

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { parentPort, workerData } from "node:worker_threads";

/** Reads all that lies below `.aiwg`, again and again, until it is told to stop; then tells what it saw. A thread: nothing holds it back. */
let reads = 0;
let highest = 0;
const bad = [];
const seen = new Set();
let stopped = false;
parentPort.once("message", () => {
  stopped = true;
});

function look() {
  let names;
  try {
    names = readdirSync(join(workerData, ".aiwg"), { recursive: true });
  } catch {
    return;
  }
  const numbers = [];
  for (const name of names) {
    if (name.includes(".tmp-") || !/\.json(\.gz)?$/.test(name)) continue;
    let bytes;
    try {
      bytes = readFileSync(join(workerData, ".aiwg", name));
    } catch (error) {
      if (error.code !== "ENOENT") bad.push(`${name}: ${error.message}`);
      continue;
    }
    reads += 1;
    try {
      JSON.parse((name.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString());
    } catch (error) {
      bad.push(`${name}: ${error.message}`);
    }
    const number = /iteration-(\d+)\./.exec(name)?.[1];
    if (number !== undefined) numbers.push(Number(number));
  }
  const newest = Math.max(0, ...numbers);
  if (newest < highest) bad.push(`iteration ${highest} was there, and then ${newest} was the highest`);
  highest = newest;
  for (const number of numbers) seen.add(number);
}

function go() {
  look();
  if (!stopped) setTimeout(go, 1);
  else parentPort.postMessage({ reads, bad, seen: [...seen].sort((a, b) => a - b) });
}
go();

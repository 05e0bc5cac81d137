import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

/**
 * Usage: reader <root>. Reads all files below `.aiwg` repeatedly until its input ends, then prints what it saw. A
 * separate process, so that nothing slows it down.
 */
const [, , root = ""] = process.argv;
const bad: string[] = [];
const seen = new Set<number>();
let [reads, highest, stopped] = [0, 0, false];
process.stdin.on("end", () => {
  stopped = true;
});
process.stdin.resume();

function look(): void {
  const numbers: number[] = [];
  for (const name of namesBelow(join(root, ".aiwg"))) {
    if (name.includes(".tmp-") || !/\.json(?:\.gz)?$/.test(name)) continue;
    if (!isWhole(name)) continue;
    const number = /iteration-(\d+)\./.exec(name)?.[1];
    if (number !== undefined) numbers.push(Number(number));
  }
  const newest = Math.max(0, ...numbers);
  if (newest < highest) bad.push(`iteration ${highest} was there, and then ${newest} was the highest`);
  highest = newest;
  for (const number of numbers) seen.add(number);
}

function namesBelow(directory: string): readonly string[] {
  try {
    return readdirSync(directory, { recursive: true, encoding: "utf8" });
  } catch {
    return [];
  }
}

function isWhole(name: string): boolean {
  let bytes: Buffer;
  try {
    bytes = readFileSync(join(root, ".aiwg", name));
  } catch (error) {
    if (!String(error).includes("ENOENT")) bad.push(`${name}: ${String(error)}`);
    return false;
  }
  reads += 1;
  try {
    JSON.parse((name.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString());
  } catch (error) {
    bad.push(`${name}: ${String(error)}`);
  }
  return true;
}

function go(): void {
  look();
  if (stopped) process.stdout.write(JSON.stringify({ reads, bad, seen: [...seen] }));
  else setTimeout(go, 1);
}
go();

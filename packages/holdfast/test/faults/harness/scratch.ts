import { execFileSync } from "node:child_process";
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isGone } from "../../temporary-folder.ts";

const MEMORY = "/dev/shm";
const ENOUGH = 1 << 30;
const PREFIX = "holdfast-faults-";

let root: string | undefined;

/**
 * One folder for all files of this process. In memory if there is space: the operations are the same, and a `sync`
 * there does not wait for other processes' disk writes. Call `clearScratch` in afterAll; the next run removes what a
 * killed one left.
 */
export function scratchRoot(): string {
  if (root === undefined) {
    const base = roomInMemory() ? MEMORY : tmpdir();
    clearLeftovers(base);
    root = mkdtempSync(join(base, `${PREFIX}${process.pid}-`));
    process.on("exit", clearScratch);
  }
  mkdirSync(root, { recursive: true });
  return root;
}

export function clearScratch(): void {
  if (root !== undefined) clear(root);
}

/** A new, empty folder below the scratch root. */
export function scratchFolder(name: string): string {
  return mkdtempSync(join(scratchRoot(), `${name}-`));
}

function clear(folder: string): void {
  for (const mount of mountsBelow(folder)) execFileSync("umount", ["-l", mount], { stdio: "ignore" });
  rmSync(folder, { recursive: true, force: true });
}

function mountsBelow(folder: string): readonly string[] {
  if (!existsSync("/proc/mounts")) return [];
  const points = readFileSync("/proc/mounts", "utf8")
    .split("\n")
    .map((line) => line.split(" ")[1] ?? "");
  return points.filter((point) => point.startsWith(`${folder}/`)).toReversed();
}

function clearLeftovers(base: string): void {
  for (const name of readdirSync(base)) {
    const pid = new RegExp(`^${PREFIX}(\\d+)-`).exec(name)?.[1];
    if (pid !== undefined && isGone(Number(pid))) clear(join(base, name));
  }
}

function roomInMemory(): boolean {
  try {
    accessSync(MEMORY, constants.W_OK);
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize >= ENOUGH;
  } catch {
    return false;
  }
}

import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const MEMORY = "/dev/shm";
const ENOUGH = 6 * 2 ** 30;
const PREFIX = "holdfast-tests-";

/**
 * Puts the temporary files of all suites into memory, if there is space and TMPDIR is not set: the suites do not depend
 * on the disk, and each of their thousands of flushes would wait for the others' writes. The folder is removed with
 * this process; the next one removes what a killed one left.
 */
export function useMemory(): void {
  if (process.env["TMPDIR"] !== undefined || !hasRoom()) return;
  for (const name of readdirSync(MEMORY)) {
    const pid = new RegExp(`^${PREFIX}(\\d+)-`).exec(name)?.[1];
    if (pid !== undefined && isGone(Number(pid))) clear(join(MEMORY, name));
  }
  const folder = mkdtempSync(join(MEMORY, `${PREFIX}${process.pid}-`));
  // As the system's own: some tests act as another user.
  chmodSync(folder, 0o1777);
  process.env["TMPDIR"] = folder;
  process.on("exit", () => clear(folder));
}

/**
 * Lets the processes that tests start from sources keep their compiled code: without it Node strips the types of each file again at every start,
 * which takes most of the time of a short process.
 */
export function keepCompiledCode(): void {
  if (process.env["NODE_COMPILE_CACHE"] !== undefined) return;
  const folder = mkdtempSync(join(tmpdir(), "holdfast-compiled-"));
  chmodSync(folder, 0o1777);
  process.env["NODE_COMPILE_CACHE"] = folder;
  process.on("exit", () => clear(folder));
}

/** Asks by a signal: a run in a namespace without /proc must not remove the files of a live one. */
export function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "ESRCH";
  }
}

function hasRoom(): boolean {
  try {
    const mount = readFileSync("/proc/mounts", "utf8")
      .split("\n")
      .map((line) => line.split(" "))
      .findLast(([, point]) => point === MEMORY);
    const options = mount?.[3]?.split(",") ?? ["noexec"];
    const { bavail, bsize } = statfsSync(MEMORY);
    return (
      options.includes("rw") &&
      !options.includes("noexec") &&
      Math.min(bavail * bsize, process.availableMemory()) >= ENOUGH
    );
  } catch {
    return false;
  }
}

/** A file that a program of a test is just writing must not fail the whole run. */
function clear(folder: string): void {
  try {
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  } catch {
    // The next run tries again.
  }
}

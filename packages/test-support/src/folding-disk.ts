// Mounts a file system that compares names without case and Unicode form, as macOS does.

import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export interface FoldingDisk {
  readonly path: string;
  unmount(): void;
}

interface FoldingOptions {
  /** Stores names in decomposed Unicode form, as HFS+ does. */
  readonly decomposed?: boolean;
}

/** A string is the reason why there is none. `npm run test:slow` installs what is missing where it can. */
export function mountFoldingDisk(options: FoldingOptions = {}): FoldingDisk | string {
  if (process.platform !== "linux") return "the model of a case-insensitive disk needs Linux";
  if (!existsSync("/dev/fuse")) return "there is no /dev/fuse";
  const probe = spawnSync(PYTHON, ["-c", "import fusepy"], { stdio: "ignore" });
  if (probe.status !== 0) return "python3-fusepy is not installed; as root on a Debian, npm run test:slow installs it";
  const folder = mkdtempSync(join(tmpdir(), "holdfast-folding-"));
  const [backing, path] = [join(folder, "backing"), join(folder, "disk")];
  // As the system's own: some tests act as another user.
  chmodSync(folder, 0o755);
  for (const name of [backing, path]) mkdirSync(name);
  chmodSync(backing, 0o1777);
  const { dev } = statSync(folder);
  const args = [PROGRAM, backing, path, ...(options.decomposed === true ? ["--decomposed"] : [])];
  // In its own session: a Ctrl+C must not end the disk before the tests that use it.
  const server = spawn(PYTHON, args, { stdio: "ignore", detached: true });
  server.unref();
  let isMounted = true;
  const unmount = (): void => {
    if (!isMounted) return;
    isMounted = false;
    process.off("exit", unmount);
    // Lazily: a process of a test may still end there. The server ends with the last of them.
    const root = process.getuid?.() === 0;
    spawnSync(root ? "umount" : "fusermount", root ? ["-l", path] : ["-u", "-z", path], { stdio: "ignore" });
    server.kill();
    rmSync(folder, { recursive: true, force: true });
  };
  process.on("exit", unmount);
  for (let tries = 0; tries < 3000; tries += 1) {
    if (statSync(path).dev !== dev) return { path, unmount };
    if (server.pid === undefined || hasEnded(server.pid)) break;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
  }
  unmount();
  return "mounting a FUSE file system is refused here";
}

/** The event loop does not run meanwhile, so Node has not reaped it. */
function hasEnded(pid: number): boolean {
  return readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
}

// Debian installs the module for its own Python.
const PYTHON = "/usr/bin/python3";
const PROGRAM = fileURLToPath(new URL("folding-disk.py", import.meta.url));

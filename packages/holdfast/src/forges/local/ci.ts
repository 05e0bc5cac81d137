import { commandVariables, namedInEnvironment } from "../../core/agent/agent-environment.ts";
import { spawn } from "node:child_process";
import { closeSync, fstatSync, mkdirSync, openSync, readFileSync, readSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { livenessOf, processIdentity, type ProcessIdentity } from "../../system/process-identity.ts";
import type { ForgePlace } from "./forge-place.ts";

/**
 * The configured command on one commit, in a process of its own that nobody waits for: it writes its result into a folder, and goes on
 * when whoever asked is killed. So a commit is checked once, however often it is asked about.
 */
export type CiState =
  | { readonly kind: "running" }
  | { readonly kind: "ended"; readonly code: number; readonly output: string };

/** Starts it unless it runs or has ended. Only under the lock. */
export function startCi(
  place: ForgePlace,
  params: { readonly commit: string; readonly command: string; readonly timeoutMs: number },
): void {
  const folder = folderOf(place, params.commit);
  if (lookAtCi(place, params.commit, params.timeoutMs) !== undefined) return;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const child = spawn("/bin/sh", ["-c", SCRIPT], {
    cwd: folder,
    detached: true,
    stdio: "ignore",
    env: {
      ...plainEnvironment(),
      REPOSITORY: place.gitDir,
      COMMIT: params.commit,
      COMMAND: params.command,
      CI: "true",
    },
  });
  child.on("error", () => undefined);
  child.unref();
  const runner = { ...processIdentity(), pid: child.pid ?? 0, started: null, startedAt: Date.now() };
  writeFileSync(join(folder, "runner.json"), JSON.stringify(runner));
}

/** Waits for its end, but not longer than that. undefined: it is gone, because it died or somebody else wrote its result down. */
export async function awaitCi(
  place: ForgePlace,
  params: { readonly commit: string; readonly waitMs: number; readonly timeoutMs: number },
): Promise<CiState | undefined> {
  for (let waited = 0; ; waited += PAUSE_MS) {
    const state = lookAtCi(place, params.commit, params.timeoutMs);
    if (state?.kind !== "running" || waited >= params.waitMs) return state;
    await setTimeout(PAUSE_MS);
  }
}

export function clearCi(place: ForgePlace, commit: string): void {
  rmSync(folderOf(place, commit), { recursive: true, force: true });
}

const PAUSE_MS = 50;
const SUMMARY_BYTES = 8 * 1024;

// A clone of its own and no worktree: when it is done with, it is a folder to remove and nothing else.
const SCRIPT = `(
  git -c core.hooksPath=/dev/null clone --quiet --shared --no-checkout "$REPOSITORY" checkout &&
  git -C checkout -c core.hooksPath=/dev/null -c advice.detachedHead=false checkout --quiet --detach "$COMMIT" &&
  cd checkout && exec /bin/sh -c "$COMMAND"
) >output 2>&1 </dev/null
echo "$?" >status.part && mv status.part status`;

/** undefined: never started, or it died without a result. */
function lookAtCi(place: ForgePlace, commit: string, timeoutMs: number): CiState | undefined {
  const folder = folderOf(place, commit);
  const status = readText(join(folder, "status"));
  if (status !== undefined) return { kind: "ended", code: Number.parseInt(status, 10), output: readTail(folder) };
  const runner = parseRunner(readText(join(folder, "runner.json")));
  if (runner === undefined || livenessOf(runner.process, processIdentity()) === "dead") {
    // It may have ended between the two looks.
    const late = readText(join(folder, "status"));
    return late === undefined
      ? undefined
      : { kind: "ended", code: Number.parseInt(late, 10), output: readTail(folder) };
  }
  if (Date.now() - runner.startedAt < timeoutMs) return { kind: "running" };
  endGroup(runner.process.pid);
  return { kind: "ended", code: 124, output: `${readTail(folder)}\nIt did not end in ${timeoutMs / 60_000} minutes.` };
}

interface Runner {
  readonly process: ProcessIdentity;
  readonly startedAt: number;
}

function parseRunner(text: string | undefined): Runner | undefined {
  try {
    const { host, pid, boot, startedAt }: Partial<Record<string, unknown>> = JSON.parse(text ?? "");
    if (typeof host !== "string" || typeof pid !== "number" || pid < 2 || typeof startedAt !== "number")
      return undefined;
    return { process: { host, pid, started: null, boot: typeof boot === "string" ? boot : null }, startedAt };
  } catch {
    return undefined;
  }
}

function endGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // Gone already.
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

function readTail(folder: string): string {
  try {
    const fd = openSync(join(folder, "output"), "r");
    try {
      const { size } = fstatSync(fd);
      const bytes = Buffer.alloc(Math.min(size, SUMMARY_BYTES));
      const read = readSync(fd, bytes, 0, bytes.length, size - bytes.length);
      return bytes.subarray(0, read).toString("utf8");
    } finally {
      closeSync(fd);
    }
  } catch {
    return "";
  }
}

/** Not the run's marks: this is the forge's process, and must outlive the run that asked. */
function plainEnvironment(): NodeJS.ProcessEnv {
  return commandVariables({ variables: process.env, named: namedInEnvironment(process.env) ?? [] });
}

function folderOf(place: ForgePlace, commit: string): string {
  return join(place.directory, "ci", commit);
}

import { link, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { HoldfastError } from "../../core/error.ts";
import { livenessOf, processIdentity, type ProcessIdentity } from "../../system/process-identity.ts";
import type { CapturePlace } from "../capture/capture.ts";

/** Holds git's lock on the worktree's index. The lock says who holds it: one that a killed Holdfast left is taken away. */
export async function withIndexLock(place: CapturePlace, scratch: string, work: () => Promise<void>): Promise<void> {
  const lock = join(place.gitDir, "index.lock");
  const draft = join(scratch, "index-lock");
  await writeFile(draft, JSON.stringify({ holdfast: processIdentity() }));
  for (let attempt = 1; !(await take(draft, lock)); attempt++) {
    if (attempt > ATTEMPTS) throw indexLocked(place, lock);
    if (await isLeftByUs(lock)) await rm(lock, { force: true });
    else await setTimeout(PAUSE_MS);
  }
  try {
    await work();
  } finally {
    await rm(lock, { force: true });
  }
}

const ATTEMPTS = 10;
const PAUSE_MS = 100;

/** A link, so that the lock is never there without its text. */
async function take(draft: string, lock: string): Promise<boolean> {
  try {
    await link(draft, lock);
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return false;
    throw error;
  }
}

/** Is it a lock of a Holdfast process that may still be alive? git's own locks name no holder. */
export async function isHeldByHoldfast(lock: string): Promise<boolean> {
  const owner = parseOwner(await readFile(lock, "utf8").catch(() => ""));
  return owner !== undefined && livenessOf(owner, processIdentity()) !== "dead";
}

async function isLeftByUs(lock: string): Promise<boolean> {
  const owner = parseOwner(await readFile(lock, "utf8").catch(() => ""));
  return owner !== undefined && livenessOf(owner, processIdentity()) === "dead";
}

/** undefined: git's own lock, which holds an index or nothing yet. */
function parseOwner(text: string): ProcessIdentity | undefined {
  if (!text.startsWith('{"holdfast":')) return undefined;
  try {
    const { holdfast }: { holdfast?: Partial<Record<string, unknown>> } = JSON.parse(text);
    const { host, pid, started, boot } = holdfast ?? {};
    if (typeof host !== "string" || typeof pid !== "number") return undefined;
    return {
      host,
      pid,
      started: typeof started === "string" ? started : null,
      boot: typeof boot === "string" ? boot : null,
    };
  } catch {
    return undefined;
  }
}

function indexLocked(place: CapturePlace, lock: string): HoldfastError {
  return new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `git is at work in ${place.root} (${lock} exists)`,
    hint: "Wait for it; if no git process is running, remove that file.",
    retry: "later",
    data: { lock },
  });
}

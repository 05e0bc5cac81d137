import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { HoldfastError } from "../../core/error.ts";
import { gitFailure } from "../git-command.ts";
import { readTip, type BranchPlace } from "./branch-place.ts";

/** Compare-and-set of the run's own branch. Moved to `to` already is as good as moved by us. */
export async function moveBranch(
  at: BranchPlace,
  params: { readonly from: string | null; readonly to: string },
): Promise<void> {
  const { repository } = at.place;
  if (params.from === params.to) return;
  const args = ["update-ref", "--no-deref", at.ref, params.to, params.from ?? repository.zero];
  for (let attempt = 1; ; attempt++) {
    const moved = await repository.git.result({ args });
    if (moved.kind === "exited" && moved.code === 0) return;
    const tip = await readTip(at);
    if (tip === params.to) return;
    if (tip !== params.from) throw movedMeanwhile(at, params, tip);
    const lock = join(repository.commonDir, `${at.ref}.lock`);
    if (!moved.stderr.includes(".lock")) throw gitFailure(args, moved);
    if (attempt > ATTEMPTS) throw locked(at, lock);
    await clearStaleLock(lock);
    await setTimeout(PAUSE_MS);
  }
}

const ATTEMPTS = 10;
const PAUSE_MS = 100;
// git holds such a lock for milliseconds; a killed one leaves it for ever.
const STALE_MS = 60_000;

async function clearStaleLock(lock: string): Promise<void> {
  const found = await stat(lock).catch(() => undefined);
  if (found !== undefined && Date.now() - found.mtimeMs > STALE_MS) await rm(lock, { force: true });
}

function movedMeanwhile(
  at: BranchPlace,
  params: { readonly from: string | null; readonly to: string },
  tip: string | null,
): HoldfastError {
  return new HoldfastError({
    code: "CONFLICT",
    message: `the branch ${at.name} is at ${tip ?? "nothing"} and not at ${params.from ?? "nothing"} any more`,
    hint: "Something else commits to this branch. Look at what it made, then run the command again.",
    data: { branch: at.name, tip, expected: params.from, wanted: params.to },
  });
}

function locked(at: BranchPlace, lock: string): HoldfastError {
  return new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `the branch ${at.name} is locked (${lock} exists)`,
    hint: "Wait for the git that works there; if none is running, remove that file.",
    retry: "later",
    data: { lock },
  });
}

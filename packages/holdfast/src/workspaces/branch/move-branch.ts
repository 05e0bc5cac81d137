import { join } from "node:path";
import { HoldfastError } from "../../core/error.ts";
import { gitFailure } from "../git/git-command.ts";
import { isLocked, pastLock } from "../git/past-lock.ts";
import { readTip, type BranchPlace } from "./branch-place.ts";

/** Compare-and-set of the run's own branch. Moved to `to` already is as good as moved by us. */
export async function moveBranch(
  at: Pick<BranchPlace, "name" | "ref"> & { readonly place: Pick<BranchPlace["place"], "repository"> },
  params: { readonly from: string | null; readonly to: string },
): Promise<void> {
  const { repository } = at.place;
  if (params.from === params.to) return;
  const args = ["update-ref", "--no-deref", at.ref, params.to, params.from ?? repository.zero];
  const lock = join(repository.commonDir, `${at.ref}.lock`);
  const moved = await pastLock(lock, () => repository.git.result({ args }));
  if (moved.kind === "exited" && moved.code === 0) return;
  const tip = await readTip(at);
  if (tip === params.to) return;
  if (tip !== params.from) throw movedMeanwhile(at, params, tip);
  throw isLocked(moved) ? locked(at, lock) : gitFailure(args, moved);
}

function movedMeanwhile(
  at: Pick<BranchPlace, "name">,
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

function locked(at: Pick<BranchPlace, "name">, lock: string): HoldfastError {
  return new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `the branch ${at.name} is locked (${lock} exists)`,
    hint: "Wait for the git that works there; if none is running, remove that file.",
    retry: "later",
    data: { lock },
  });
}

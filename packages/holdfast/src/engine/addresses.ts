import { parseAddress } from "../core/checkpoint/address.ts";
import type { CheckpointSummary } from "../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../core/error.ts";
import { nearest } from "../core/nearest.ts";
import type { RunSummary } from "../core/run/run.ts";
import { allCheckpoints } from "./upkeep/all-checkpoints.ts";
import type { Parts } from "./parts.ts";
import { WORKTREE } from "./save/worktree-label.ts";

/** The run that the address names; without one, the run of this worktree, else the only or newest run. */
export async function resolveRun(
  parts: Parts,
  address: string | undefined,
  here: string | undefined,
): Promise<RunSummary> {
  const named = address === undefined ? null : parseAddress(address).run;
  if (named !== null) {
    const run = await parts.store.getRun(named);
    if (run !== undefined) return run;
    throw await noSuchRun(parts, named);
  }
  const runs = await parts.store.listRuns();
  const own = here === undefined ? [] : runsHere(runs, here);
  const candidates = own.length > 0 ? own : runs;
  const [found, other] = candidates;
  // Without an address the newest is meant; `@7` must not mean another run than it did yesterday.
  if (found !== undefined && other !== undefined && address !== undefined) throw ambiguous(address, candidates);
  if (found !== undefined) return found;
  throw new HoldfastError({
    code: "RUN_NOT_FOUND",
    message: "There are no runs yet",
    hint: "Save the first checkpoint with `holdfast checkpoint`.",
  });
}

/** `here`: the run that the worktree was made for, or the label of the worktree. Newest first. */
export function runsHere(runs: readonly RunSummary[], here: string): readonly RunSummary[] {
  return runs.filter((run) => run.id === here || run.labels[WORKTREE] === here);
}

function ambiguous(address: string, runs: readonly RunSummary[]): HoldfastError {
  const ids = runs.slice(0, 3).map((run) => `${run.id}${address}`);
  return new HoldfastError({
    code: "USAGE",
    message: `${address} could mean ${runs.length} runs`,
    hint: `Name the run: ${ids.join(", ")}${runs.length > 3 ? ", …" : ""}.`,
  });
}

export async function resolveCheckpoint(
  parts: Parts,
  address: string,
  here: string | undefined,
): Promise<CheckpointSummary> {
  const run = await resolveRun(parts, address, here);
  const { at } = parseAddress(address);
  switch (at.kind) {
    case "none":
    case "latest": {
      const latest = await parts.store.latest(run.id);
      if (latest === undefined) throw nothingSaved(run.id);
      const { planes: _planes, ...summary } = latest;
      return summary;
    }
    case "sequence":
      return await bySequence(parts, run.id, at.sequence);
    case "tag":
      return await byTag(parts, run.id, at.name);
  }
}

async function bySequence(parts: Parts, run: string, sequence: number): Promise<CheckpointSummary> {
  const [found] = await parts.store.listCheckpoints({ run, before: sequence + 1, limit: 1 });
  if (found?.sequence === sequence) return found;
  const tombstone = (await parts.store.listTombstones(run)).find((dead) => dead.sequence === sequence);
  if (tombstone !== undefined) {
    throw new HoldfastError({
      code: "CHECKPOINT_DROPPED",
      message: `Checkpoint ${run}@${sequence} was dropped at ${tombstone.droppedAt}: ${tombstone.why}`,
      hint: found === undefined ? "See `holdfast list` for what is kept." : `The nearest one before it is ${found.id}.`,
    });
  }
  throw new HoldfastError({
    code: "CHECKPOINT_NOT_FOUND",
    message: `Run ${run} has no checkpoint ${sequence}`,
    hint: `See \`holdfast list ${run}\` for what there is.`,
  });
}

async function byTag(parts: Parts, run: string, tag: string): Promise<CheckpointSummary> {
  const tags = new Set<string>();
  for await (const checkpoint of allCheckpoints(parts.store, run)) {
    if (checkpoint.tags.includes(tag)) return checkpoint;
    for (const name of checkpoint.tags) tags.add(name);
  }
  const [guess] = nearest(tag, tags);
  const known =
    tags.size === 0
      ? `Run ${run} has no tags; see \`holdfast list ${run}\`.`
      : `Its tags: ${[...tags].slice(0, 8).join(", ")}.`;
  throw new HoldfastError({
    code: "CHECKPOINT_NOT_FOUND",
    message: `Run ${run} has no tag "${tag}"`,
    hint: guess === undefined ? known : `Did you mean ${run}@${guess}?`,
  });
}

async function noSuchRun(parts: Parts, id: string): Promise<HoldfastError> {
  const [guess] = nearest(
    id,
    (await parts.store.listRuns()).map((run) => run.id),
  );
  return new HoldfastError({
    code: "RUN_NOT_FOUND",
    message: `There is no run "${id}"`,
    hint: guess === undefined ? "See `holdfast list` for the runs there are." : `Did you mean ${guess}?`,
  });
}

function nothingSaved(run: string): HoldfastError {
  return new HoldfastError({
    code: "NOTHING_TO_RESUME",
    message: `Run ${run} has no checkpoint`,
    hint: `Save one with \`holdfast checkpoint --run ${run}\`.`,
  });
}

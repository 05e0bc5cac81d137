import { isDeepStrictEqual } from "node:util";
import type { Checkpoint, Planes } from "@holdfast/core/checkpoint";
import { HoldfastError } from "@holdfast/platform/error";
import type { Store, VerifyEvent } from "@holdfast/core/store";
import { digestWorld, readWorld } from "../harness/world.ts";
import type { PrintedLine } from "../writers/printed.ts";
import { planesOf, RUN } from "../writers/scenario.ts";
import { dumpStore } from "./dump-store.ts";

export interface StoreJudgement {
  readonly problems: readonly string[];
  /** Those that are there, oldest first. */
  readonly found: readonly Checkpoint[];
}

/**
 * Opens the store twice and names all that is wrong: an acknowledged checkpoint missing or changed, a torn one shown, verify not
 * clean, or a second opening that finds something to do.
 */
export async function judgeStore(params: {
  readonly open: () => Promise<Store>;
  readonly directory: string;
  readonly printed: readonly PrintedLine[];
  /** What a checkpoint must hold; default what the scenario makes of its sequence. */
  readonly expected?: (checkpoint: Checkpoint) => Planes;
}): Promise<StoreJudgement> {
  const store = await params.open();
  const problems: string[] = [];
  let found: readonly Checkpoint[] = [];
  let first = "";
  try {
    found = await readAll(store, problems, params.expected ?? scenarioPlanes);
    problems.push(
      ...checkPrinted(params.printed, found),
      ...(await checkDropped(store, params.printed)),
      ...(await checkEffects(store, params.printed)),
    );
    problems.push(...(await verifyStore(store)));
    first = await dumpStore(store);
  } finally {
    await store.close();
  }
  const settled = digestWorld(readWorld(params.directory));
  const again = await params.open();
  try {
    if ((await dumpStore(again)) !== first)
      problems.push("UNSTABLE: the second opening reports something else than the first");
  } finally {
    await again.close();
  }
  if (digestWorld(readWorld(params.directory)) !== settled) problems.push("UNSTABLE: the second opening changed files");
  return { problems, found };
}

export async function verifyStore(store: Store): Promise<readonly string[]> {
  const events: VerifyEvent[] = [];
  for await (const event of store.verify()) events.push(event);
  const summary = events.at(-1);
  const problems = events.flatMap((event) =>
    event.kind === "problem" ? [`VERIFY: ${event.problem.code} ${event.problem.what}`] : [],
  );
  if (summary?.kind !== "summary" || summary.ok !== (problems.length === 0))
    problems.push("VERIFY: the summary does not fit the problems");
  return problems;
}

/** Continues after the dead writer: takes over its lease and saves the next sequence. */
export async function resumeStore(params: {
  readonly open: () => Promise<Store>;
  readonly found: readonly Checkpoint[];
}): Promise<readonly string[]> {
  const store = await params.open();
  try {
    if ((await store.getRun(RUN)) === undefined)
      await store.createRun({ id: RUN, workflow: "none", work: { kind: "none" } });
    const lease = await store.takeLease({ run: RUN, label: "resumed after a crash" });
    const next = (params.found.at(-1)?.sequence ?? 0) + 1;
    const { checkpoint } = await store.commit({
      lease,
      checkpoint: { sequence: next, trigger: "manual", planes: planesOf(next) },
    });
    if (checkpoint?.sequence !== next) return [`RESUME: saved as ${checkpoint?.sequence}, not as ${next}`];
    const read = await store.getCheckpoint({ run: RUN, sequence: next });
    if (!isDeepStrictEqual(read.planes, planesOf(next))) return ["RESUME: what was saved is not what was given"];
    return (await verifyStore(store)).map((problem) => `RESUME: ${problem}`);
  } finally {
    await store.close();
  }
}

function scenarioPlanes({ sequence, planes }: Checkpoint): Planes {
  return planesOf(sequence, planes.files);
}

async function readAll(
  store: Store,
  problems: string[],
  expected: (checkpoint: Checkpoint) => Planes,
): Promise<readonly Checkpoint[]> {
  if ((await store.getRun(RUN)) === undefined) return [];
  const summaries = await store.listCheckpoints({ run: RUN });
  const found: Checkpoint[] = [];
  for (const { sequence, digest } of summaries.toReversed()) {
    const checkpoint = await store.getCheckpoint({ run: RUN, sequence });
    found.push(checkpoint);
    if (checkpoint.digest !== digest) problems.push(`TORN: ${sequence} is listed with another digest than it has`);
    if (!isDeepStrictEqual(checkpoint.planes, expected(checkpoint)))
      problems.push(`TORN: ${sequence} is not what was saved`);
  }
  return found;
}

function checkPrinted(printed: readonly PrintedLine[], found: readonly Checkpoint[]): readonly string[] {
  const problems: string[] = [];
  const bySequence = new Map(found.map((checkpoint) => [checkpoint.sequence, checkpoint]));
  const dropping = new Set(printed.flatMap((line) => (line.kind === "dropping" ? [line.sequence] : [])));
  let asked = 0;
  for (const line of printed) {
    if (line.kind === "saving") asked = Math.max(asked, line.sequence);
    if (line.kind === "saved") {
      const checkpoint = bySequence.get(line.sequence);
      if (checkpoint === undefined && !dropping.has(line.sequence))
        problems.push(`LOST: ${line.sequence} was acknowledged`);
      else if (checkpoint !== undefined && checkpoint.digest !== line.digest)
        problems.push(`CHANGED: ${line.sequence} has another digest than was acknowledged`);
    }
    if (line.kind === "tagged" && bySequence.get(line.sequence)?.tags.includes(line.name) !== true)
      problems.push(`LOST: tag ${line.name}`);
  }
  const beyond = found.filter(({ sequence }) => sequence > asked);
  if (beyond.length > 0) problems.push(`DOUBLED: ${beyond.map(({ id }) => id).join(", ")} was never asked for`);
  return problems;
}

async function checkDropped(store: Store, printed: readonly PrintedLine[]): Promise<readonly string[]> {
  const problems: string[] = [];
  for (const line of printed) {
    if (line.kind !== "dropped") continue;
    const code = await store.getCheckpoint({ run: RUN, sequence: line.sequence }).then(
      () => "still there",
      (error: unknown) => (error instanceof HoldfastError ? error.code : String(error)),
    );
    if (code !== "CHECKPOINT_DROPPED") problems.push(`UNDROPPED: ${line.sequence} is ${code}`);
  }
  return problems;
}

async function checkEffects(store: Store, printed: readonly PrintedLine[]): Promise<readonly string[]> {
  const wanted = new Map(printed.flatMap((line) => (line.kind === "effect" ? [[line.key, line.state] as const] : [])));
  if (wanted.size === 0) return [];
  const effects = new Map((await store.listEffects(RUN)).map((effect) => [effect.key, effect.state.kind]));
  // The writer may have been one step further than it reported.
  const rank = ["intended", "unknown", "done"];
  return [...wanted].flatMap(([key, state]) => {
    const is = effects.get(key);
    return is !== undefined && rank.indexOf(is) >= rank.indexOf(state)
      ? []
      : [`LOST: effect ${key} was ${state}, is ${is ?? "unknown"}`];
  });
}

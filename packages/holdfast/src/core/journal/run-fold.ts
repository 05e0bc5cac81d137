import type { EntryKind, JournalEntry, RunEnded, RunParked, RunReopened } from "./journal.ts";
import type { JsonObject } from "../json.ts";
import type { ParkedOn, PendingDecision, RunState } from "../run/run.ts";
import {
  count,
  flag,
  jsonObject,
  list,
  nullable,
  object,
  oneOf,
  optional,
  parseShape,
  tagged,
  text,
} from "../shape.ts";
import type { Shape } from "../shape.ts";

/** What a run's journal says about the run as a whole. */
export interface RunFold {
  readonly state: RunState;
  /** A restore that began and never said it finished: the files may be half of one checkpoint, half of another. */
  readonly unfinishedRestore: { readonly entry: number; readonly body: JsonObject } | null;
}

export const NEW_RUN: RunFold = { state: { kind: "open" }, unfinishedRestore: null };

type FoldedEntry = Pick<JournalEntry, "run" | "entry" | "kind" | "at" | "body">;

export function foldRun(entries: Iterable<FoldedEntry>): RunFold {
  let fold = NEW_RUN;
  for (const entry of entries) fold = stepRun(fold, entry);
  return fold;
}

/**
 * One entry further; for stores that keep the fold beside the journal.
 * An end stands until the run is re-opened: a later end or park changes nothing, so the first reason is never lost.
 */
export function stepRun(fold: RunFold, entry: FoldedEntry): RunFold {
  const ended = fold.state.kind === "done" || fold.state.kind === "fatal";
  switch (entry.kind) {
    case "run.parked":
      return ended ? fold : { ...fold, state: { kind: "parked", ...parkedBody(entry) } };
    case "run.unparked":
      return fold.state.kind === "parked" ? { ...fold, state: { kind: "open" } } : fold;
    case "run.ended":
      return ended ? fold : { ...fold, state: endState(entry) };
    case "run.reopened":
      parseShape({ shape: reopenedShape, value: entry.body, what: nameOf(entry) });
      return { ...fold, state: { kind: "open" } };
    case "restore.started":
      return { ...fold, unfinishedRestore: { entry: entry.entry, body: entry.body } };
    case "restore.finished":
      return { ...fold, unfinishedRestore: null };
    default:
      return fold;
  }
}

/** The kinds that stepRun looks at; every other leaves the fold as it is. */
export function concernsRun(kind: EntryKind): boolean {
  return RUN_KINDS.has(kind);
}

const RUN_KINDS: ReadonlySet<EntryKind> = new Set<EntryKind>([
  "run.parked",
  "run.unparked",
  "run.ended",
  "run.reopened",
  "restore.started",
  "restore.finished",
]);

/** Id of the checkpoint whose restore did not finish. */
export function unfinishedTarget(fold: RunFold): string | null {
  const target = fold.unfinishedRestore?.body["target"];
  return typeof target === "string" ? target : null;
}

/** A fold that was kept beside the journal. */
export function parseRunFold(value: unknown, what: string): RunFold {
  return parseShape({ shape: foldShape, value, what });
}

const aborted = oneOf({ aborted: true });
const endedShape: Shape<RunEnded> = tagged<RunEnded, "outcome">("outcome", {
  done: object({ outcome: oneOf({ done: true }) }),
  fatal: object({ outcome: oneOf({ fatal: true }), reason: text, cause: optional(aborted) }),
});
const reopenedShape: Shape<RunReopened> = object<RunReopened>({ reason: text });
const parkedOn: Shape<ParkedOn> = oneOf({
  person: true,
  quota: true,
  provider: true,
  forge: true,
  budget: true,
  ci: true,
  disk: true,
  session: true,
  pause: true,
});
const decision: Shape<PendingDecision> = object<PendingDecision>({
  name: text,
  question: text,
  options: list(text),
  recheck: optional(flag),
});
const parkedShape: Shape<RunParked> = object<RunParked>({
  on: parkedOn,
  reason: text,
  until: nullable(text),
  decision: optional(decision),
});

const stateShape: Shape<RunState> = tagged<RunState, "kind">("kind", {
  open: object({ kind: oneOf({ open: true }) }),
  parked: object({
    kind: oneOf({ parked: true }),
    on: parkedOn,
    reason: text,
    until: nullable(text),
    decision: optional(decision),
  }),
  done: object({ kind: oneOf({ done: true }), at: text }),
  fatal: object({ kind: oneOf({ fatal: true }), at: text, reason: text, cause: optional(aborted) }),
});
const foldShape: Shape<RunFold> = object<RunFold>({
  state: stateShape,
  unfinishedRestore: nullable(object({ entry: count, body: jsonObject })),
});

function endState(entry: FoldedEntry): RunState {
  const body = parseShape({ shape: endedShape, value: entry.body, what: nameOf(entry) });
  switch (body.outcome) {
    case "done":
      return { kind: "done", at: entry.at };
    case "fatal":
      return {
        kind: "fatal",
        at: entry.at,
        reason: body.reason,
        ...(body.cause === undefined ? {} : { cause: body.cause }),
      };
  }
}

function parkedBody(entry: FoldedEntry): RunParked {
  const body = parseShape({ shape: parkedShape, value: entry.body, what: nameOf(entry) });
  const { on, reason, until } = body;
  return body.decision === undefined ? { on, reason, until } : { on, reason, until, decision: body.decision };
}

function nameOf(entry: FoldedEntry): string {
  return `Journal entry ${entry.entry} of run ${entry.run} (${entry.kind})`;
}

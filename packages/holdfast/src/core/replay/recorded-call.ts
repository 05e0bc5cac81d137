import type { JournalEntry } from "../journal/journal.ts";
import type { Digest, Json } from "../json.ts";
import {
  count,
  dictionary,
  finite,
  flag,
  json,
  list,
  nullable,
  object,
  oneOf,
  parseShape,
  tagged,
  text,
} from "../shape.ts";
import type { Shape } from "../shape.ts";

/**
 * What went out of a run and came back, as `call.recorded` entries hold it: in the commit of the step that it belongs to, so a kill leaves the whole of it or
 * nothing. What a step came to is that step's result; this is all that it was made from.
 */
export type RecordedCall = RecordedAgent | RecordedCommand | RecordedLookup | RecordedClock;

/** One try of an agent. */
export type RecordedAgent = {
  readonly kind: "agent";
  readonly visit: number;
  readonly step: string;
  /** 1 for the first. */
  readonly attempt: number;
  readonly asked: AskedAgent;
  readonly sent: {
    /** null: the prompt that was asked with. */
    readonly prompt: string | null;
    readonly session: string | null;
    readonly forkAt: string | null;
  };
  readonly ran: {
    /** Who did it: not the one that was asked for, where another took over. */
    readonly agent: string;
    readonly model: string | null;
    /** As the agent itself says; null: it does not. */
    readonly version: string | null;
    /** null: no program was started. */
    readonly argv: readonly string[] | null;
    readonly environment: RecordedEnvironment;
    /** null: the run has none. "not_taken": the agent has no way to be given one. */
    readonly seed: { readonly value: number; readonly how: "taken" | "not_taken" } | null;
  };
  readonly heard: {
    readonly events: readonly Json[];
    /** So many more came than are kept. */
    readonly left: number;
    /** Of all of them. */
    readonly digest: Digest;
  };
  readonly files: { readonly before: FileMark | null; readonly after: FileMark | null };
  readonly milliseconds: number;
  /** What a try came to that is not the step's result; null: see there. */
  readonly failed: { readonly cause: string; readonly message: string } | null;
};

/** What the workflow asked for: the same workflow at the same place asks for the same. */
export type AskedAgent = {
  readonly agent: string;
  readonly model: string | null;
  readonly role: string;
  readonly prompt: string;
  readonly yolo: boolean;
  readonly timeoutMs: number | null;
  readonly env: Readonly<Record<string, string>>;
  readonly collect: readonly string[];
  /** Where it may change files. */
  readonly works: "files" | "reads" | "aside";
  readonly iteration: number;
};

export type RecordedEnvironment = {
  readonly hash: Digest;
  /** Secrets masked; null: as recorded with this hash before. */
  readonly values: Readonly<Record<string, string>> | null;
};

export type FileMark = {
  readonly tree: string;
  readonly commit: string;
  readonly head: string | null;
  readonly branch: string | null;
};

/** A command of the user's: a gate, a verification. */
export type RecordedCommand = {
  readonly kind: "command";
  readonly visit: number;
  /** null: of no step of a visit (an effect's). */
  readonly step: string | null;
  readonly command: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number | null;
  readonly environment: RecordedEnvironment;
  readonly result: Json;
};

/** A question to the forge, and its answer. */
export type RecordedLookup = {
  readonly kind: "forge";
  readonly visit: number;
  readonly method: string;
  readonly args: readonly Json[];
  readonly answer:
    | { readonly kind: "answered"; readonly value: Json }
    | { readonly kind: "refused"; readonly code: string; readonly message: string };
};

/** What the clock said to a stage, reading by reading. */
export type RecordedClock = { readonly kind: "clock"; readonly visit: number; readonly values: readonly number[] };

export function parseRecordedCall(entry: Pick<JournalEntry, "run" | "entry" | "body">): RecordedCall {
  const what = `Journal entry ${entry.entry} of run ${entry.run} (call.recorded)`;
  return parseShape({ shape: callShape, value: entry.body, what });
}

const texts: Shape<Readonly<Record<string, string>>> = dictionary(text);
const environment: Shape<RecordedEnvironment> = object<RecordedEnvironment>({ hash: text, values: nullable(texts) });
const fileMark: Shape<FileMark> = object<FileMark>({
  tree: text,
  commit: text,
  head: nullable(text),
  branch: nullable(text),
});
const askedShape: Shape<AskedAgent> = object<AskedAgent>({
  agent: text,
  model: nullable(text),
  role: text,
  prompt: text,
  yolo: flag,
  timeoutMs: nullable(count),
  env: texts,
  collect: list(text),
  works: oneOf({ files: true, reads: true, aside: true }),
  iteration: count,
});
const agentShape: Shape<RecordedAgent> = object<RecordedAgent>({
  kind: oneOf({ agent: true }),
  visit: count,
  step: text,
  attempt: count,
  asked: askedShape,
  sent: object<RecordedAgent["sent"]>({ prompt: nullable(text), session: nullable(text), forkAt: nullable(text) }),
  ran: object<RecordedAgent["ran"]>({
    agent: text,
    model: nullable(text),
    version: nullable(text),
    argv: nullable(list(text)),
    environment,
    seed: nullable(
      object<NonNullable<RecordedAgent["ran"]["seed"]>>({ value: count, how: oneOf({ taken: true, not_taken: true }) }),
    ),
  }),
  heard: object<RecordedAgent["heard"]>({ events: list(json), left: count, digest: text }),
  files: object<RecordedAgent["files"]>({ before: nullable(fileMark), after: nullable(fileMark) }),
  milliseconds: count,
  failed: nullable(object<NonNullable<RecordedAgent["failed"]>>({ cause: text, message: text })),
});
const commandShape: Shape<RecordedCommand> = object<RecordedCommand>({
  kind: oneOf({ command: true }),
  visit: count,
  step: nullable(text),
  command: text,
  env: texts,
  timeoutMs: nullable(count),
  environment,
  result: json,
});
type Answer = RecordedLookup["answer"];
type Answered = Extract<Answer, { readonly kind: "answered" }>;
type Refused = Extract<Answer, { readonly kind: "refused" }>;
const answerShape: Shape<Answer> = tagged<Answer, "kind">("kind", {
  answered: object<Answered>({ kind: oneOf({ answered: true }), value: json }),
  refused: object<Refused>({ kind: oneOf({ refused: true }), code: text, message: text }),
});
const lookupShape: Shape<RecordedLookup> = object<RecordedLookup>({
  kind: oneOf({ forge: true }),
  visit: count,
  method: text,
  args: list(json),
  answer: answerShape,
});
const callShape: Shape<RecordedCall> = tagged<RecordedCall, "kind">("kind", {
  agent: agentShape,
  command: commandShape,
  forge: lookupShape,
  clock: object<RecordedClock>({ kind: oneOf({ clock: true }), visit: count, values: list(finite) }),
});

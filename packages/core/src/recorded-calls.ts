// The calls of a recorded run to agents, commands, forge and clock: their journal format, and the recorder that collects them until a
// commit.

import type { Agent, AgentEvent } from "./agent.ts";
import type { JournalEntry, NewEntry } from "./journal.ts";
import {
  type Digest,
  type Hasher,
  type Json,
  type Shape,
  count,
  dictionary,
  finite,
  flag,
  isJsonArray,
  json,
  list,
  nullable,
  object,
  oneOf,
  parseShape,
  sha256,
  tagged,
  text,
} from "./json.ts";
import { MASK, isSecretName, maskSecrets, maskValue, secretValues } from "./mask.ts";
import { canonicalJson, capture } from "./values.ts";

/**
 * Collects what a recorded run asks of the outside world and the answers, until the next commit writes them. What no commit wrote is lost
 * with the process, and the next process asks again.
 */
export class Tape {
  /** Hides secrets, including those of the environment. */
  readonly mask: (text: string) => string;
  readonly #environment: () => Environment;
  readonly #waiting: NewEntry[] = [];
  readonly #told = new Set<string>();
  readonly #versions = new Map<string, Promise<string | null>>();
  /** Number of the stage attempt that runs now. */
  stageAttempt = 0;

  constructor(params: { readonly environment: () => Environment; readonly mask: (text: string) => string }) {
    this.mask = params.mask;
    this.#environment = params.environment;
  }

  /** Returns a copy without secrets. */
  masked(value: unknown): Json {
    return maskValue(capture(value), this.mask);
  }

  note(call: RecordedCall): void {
    this.#waiting.push({ kind: "call.recorded", body: { ...call } });
  }

  /** Notes a clock reading. Consecutive readings share one note. */
  read(value: number): number {
    const { stageAttempt } = this;
    const last = this.#waiting.at(-1)?.body;
    const values = last?.["kind"] === "clock" && last["stageAttempt"] === stageAttempt ? last["values"] : undefined;
    if (isJsonArray(values)) this.#waiting.pop();
    const note: RecordedClock = {
      kind: "clock",
      stageAttempt,
      values: [...(isJsonArray(values) ? values.map(Number) : []), value],
    };
    this.note(note);
    return value;
  }

  /** Returns the notes for the commit that is made now, and clears them. */
  drain(): readonly NewEntry[] {
    return this.#waiting.length === 0 ? NONE : this.#waiting.splice(0);
  }

  /** The values are written once for each hash: most calls of a process have the same environment. */
  environment(): RecordedEnvironment {
    const { hash, values } = this.#environment();
    if (this.#told.has(hash)) return { hash, values: null };
    this.#told.add(hash);
    return { hash, values };
  }

  /** Asks each agent once per process. Null when the agent does not report a version. */
  version(agent: Agent): Promise<string | null> {
    const known = this.#versions.get(agent.name);
    if (known !== undefined) return known;
    const asked = agent.probe().then(
      ({ version }) => version,
      () => null,
    );
    this.#versions.set(agent.name, asked);
    return asked;
  }
}

const NONE: readonly NewEntry[] = [];

/** Events beyond this many characters are only in the agent's log and in the digest. */
const KEPT_CHARACTERS = 1_000_000;

/** The events of an agent while it works. The raw lines that they were parsed from are in the log. */
export class Hearing {
  readonly #events: Json[] = [];
  #characters = 0;
  #left = 0;
  #digest = "";
  argv: readonly string[] | null = null;

  hear(event: AgentEvent): void {
    if (event.kind === "raw") return;
    if (event.kind === "process") {
      this.argv = event.argv;
      return;
    }
    const kept = capture(event);
    const text = canonicalJson(kept);
    this.#digest = sha256(`${this.#digest}\n${text}`);
    this.#characters += text.length;
    if (this.#characters > KEPT_CHARACTERS) this.#left += 1;
    else this.#events.push(kept);
  }

  heard(): { readonly events: readonly Json[]; readonly left: number; readonly digest: string } {
    return { events: this.#events, left: this.#left, digest: this.#digest };
  }
}

/**
 * A call of a run to the outside world, as a `call.recorded` entry holds it. It is in the commit of its step, so a kill leaves either all
 * of it or nothing. The step has the result; this has the input that the result was made from.
 */
type RecordedCall = RecordedAgent | RecordedCommand | RecordedLookup | RecordedClock;

/** One try of an agent call. */
export type RecordedAgent = {
  readonly kind: "agent";
  readonly stageAttempt: number;
  readonly step: string;
  /** 1 for the first. */
  readonly attempt: number;
  readonly asked: AskedAgent;
  readonly sent: {
    /** Null: the prompt of `asked`. */
    readonly prompt: string | null;
    readonly session: string | null;
    readonly forkAt: string | null;
  };
  readonly ran: {
    /** The agent that ran; it differs from the requested one after a fallback. */
    readonly agent: string;
    readonly model: string | null;
    /** As the agent reports it; null: it does not. */
    readonly version: string | null;
    /** Null: no process was started. */
    readonly argv: readonly string[] | null;
    readonly environment: RecordedEnvironment;
    /** Null: the run has no seed. "not_taken": the agent does not support one. */
    readonly seed: { readonly value: number; readonly how: "taken" | "not_taken" } | null;
  };
  readonly heard: {
    readonly events: readonly Json[];
    /** How many events are not kept. */
    readonly left: number;
    /** Digest of all events, those not kept included. */
    readonly digest: Digest;
  };
  readonly files: { readonly before: FileMark | null; readonly after: FileMark | null };
  readonly milliseconds: number;
  /** Why the try failed; null: the step's result says how it ended. */
  readonly failed: { readonly cause: string; readonly message: string } | null;
};

/** What the workflow requested: the same workflow at the same position requests the same. */
export type AskedAgent = {
  readonly agent: string;
  readonly model: string | null;
  readonly role: string;
  readonly prompt: string;
  readonly yolo: boolean;
  readonly timeoutMs: number | null;
  readonly env: Readonly<Record<string, string>>;
  readonly collect: readonly string[];
  /** Where the agent may change files. */
  readonly works: "files" | "reads" | "sideWorktree";
  readonly iteration: number;
};

type RecordedEnvironment = {
  readonly hash: Digest;
  /** With secrets masked; null: recorded before under this hash. */
  readonly values: Readonly<Record<string, string>> | null;
};

export type FileMark = {
  readonly tree: string;
  readonly snapshot: string;
  readonly head: string | null;
  readonly branch: string | null;
};

/** A command of the user: a gate or a verification. */
type RecordedCommand = {
  readonly kind: "command";
  readonly stageAttempt: number;
  /** Null: the command belongs to an effect, not to a step of a stage attempt. */
  readonly step: string | null;
  readonly command: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number | null;
  readonly environment: RecordedEnvironment;
  readonly result: Json;
};

/** A query to the forge, and its answer. */
export type RecordedLookup = {
  readonly kind: "forge";
  readonly stageAttempt: number;
  readonly method: string;
  readonly args: readonly Json[];
  readonly answer:
    | { readonly kind: "answered"; readonly value: Json }
    | { readonly kind: "refused"; readonly code: string; readonly message: string };
};

/** Clock readings of a stage, in order. */
type RecordedClock = { readonly kind: "clock"; readonly stageAttempt: number; readonly values: readonly number[] };

export function parseRecordedCall(entry: Pick<JournalEntry, "run" | "entry" | "body">): RecordedCall {
  const what = `Journal entry ${entry.entry} of run ${entry.run} (call.recorded)`;
  return parseShape({ shape: callShape, value: entry.body, what });
}

const texts: Shape<Readonly<Record<string, string>>> = dictionary(text);
const environment: Shape<RecordedEnvironment> = object<RecordedEnvironment>({ hash: text, values: nullable(texts) });
const fileMark: Shape<FileMark> = object<FileMark>({
  tree: text,
  snapshot: text,
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
  works: oneOf({ files: true, reads: true, sideWorktree: true }),
  iteration: count,
});
const agentShape: Shape<RecordedAgent> = object<RecordedAgent>({
  kind: oneOf({ agent: true }),
  stageAttempt: count,
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
  stageAttempt: count,
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
  stageAttempt: count,
  method: text,
  args: list(json),
  answer: answerShape,
});
const callShape: Shape<RecordedCall> = tagged<RecordedCall, "kind">("kind", {
  agent: agentShape,
  command: commandShape,
  forge: lookupShape,
  clock: object<RecordedClock>({ kind: oneOf({ clock: true }), stageAttempt: count, values: list(finite) }),
});

export interface Environment {
  readonly hash: Digest;
  readonly values: Readonly<Record<string, string>>;
}

/**
 * The part of an environment that an outcome may depend on, with secrets masked, and its hash. It leaves out what differs between
 * terminals, sessions and logins, since no two environments would match otherwise. A secret counts only by its presence: its value is not
 * even in the hash.
 */
export function describeEnvironment(
  variables: Readonly<Record<string, string | undefined>>,
  hasher: Hasher,
): Environment {
  const secrets = secretValues(variables);
  const values: Record<string, string> = {};
  for (const name of Object.keys(variables).toSorted()) {
    const value = variables[name];
    if (value === undefined || isPassing(name)) continue;
    values[name] = isSecretName(name) ? MASK : maskSecrets(value, secrets).toWellFormed();
  }
  return { hash: hasher(canonicalJson(values)), values };
}

/** Names of the variables that differ, sorted. A secret is listed only where one side lacks it. */
export function changedVariables(
  before: Readonly<Record<string, string>>,
  now: Readonly<Record<string, string>>,
): readonly string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(now)]);
  return [...names].filter((name) => before[name] !== now[name]).toSorted();
}

function isPassing(name: string): boolean {
  return PASSING.has(name.toUpperCase()) || PASSING_KINDS.test(name);
}

const PASSING: ReadonlySet<string> = new Set([
  "_",
  "COLORFGBG",
  "COLORTERM",
  "COLUMNS",
  "DISPLAY",
  "INIT_CWD",
  "INVOCATION_ID",
  "JOURNAL_STREAM",
  "LINES",
  "LOGNAME",
  "MAIL",
  "OLDPWD",
  "PPID",
  "PWD",
  "SHLVL",
  "STY",
  "SYSTEMD_EXEC_PID",
  "TERM",
  "WAYLAND_DISPLAY",
  "WINDOWID",
  "XAUTHORITY",
]);
const PASSING_KINDS =
  /^(?:GIT|HOLDFAST|DBUS|GNOME|GPG|ITERM|KITTY|KONSOLE|SSH|TERM|TMUX|VITEST|VSCODE|VTE|WEZTERM|XDG|npm)_/i;

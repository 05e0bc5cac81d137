// The calls of a recorded run to agents, commands, forge and clock: their journal format, and the recorder that collects them until a
// commit.

import type { Agent, AgentEvent } from "./agent.ts";
import { type JournalEntry, type NewEntry, readBody } from "./journal.ts";
import {
  type Digest,
  type Hasher,
  type Json,
  type TypeOf,
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
  sha256,
  text,
  variants,
} from "./json.ts";
import { MASK, isSecretName, secretValues } from "./known-secrets.ts";
import { maskSecrets, maskValue } from "./mask.ts";
import { canonicalJson, capture } from "./values.ts";

/**
 * Collects what a recorded run asks of the outside world and the answers, until the next commit writes them. What no commit wrote is lost
 * with the process, and the next process asks again.
 */
export class CallRecorder {
  /** Hides secrets, including those of the environment. */
  readonly mask: (text: string) => string;
  readonly #environment: () => Environment;
  readonly #waiting: NewEntry[] = [];
  readonly #reported = new Set<string>();
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
    this.note({
      kind: "clock",
      stageAttempt,
      values: [...(isJsonArray(values) ? values.map(Number) : []), value],
    });
    return value;
  }

  /** Returns the notes for the commit that is made now, and clears them. */
  drain(): readonly NewEntry[] {
    return this.#waiting.length === 0 ? NONE : this.#waiting.splice(0);
  }

  /** The values are written once for each hash: most calls of a process have the same environment. */
  environment(): RecordedEnvironment {
    const { hash, values } = this.#environment();
    if (this.#reported.has(hash)) return { hash, values: null };
    this.#reported.add(hash);
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
export class EventRecorder {
  readonly #events: Json[] = [];
  #characters = 0;
  #left = 0;
  #digest = "";
  argv: readonly string[] | null = null;

  record(event: AgentEvent): void {
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

  recorded(): { readonly events: readonly Json[]; readonly left: number; readonly digest: string } {
    return { events: this.#events, left: this.#left, digest: this.#digest };
  }
}

const texts = dictionary(text);
const fileMark = object({ tree: text, snapshot: text, head: nullable(text), branch: nullable(text) });
export type FileMark = TypeOf<typeof fileMark>;

const environment = object({
  hash: text,
  /** With secrets masked; null: recorded before under this hash. */
  values: nullable(texts),
});
type RecordedEnvironment = TypeOf<typeof environment>;

/** What the workflow requested: the same workflow at the same position requests the same. */
const askedShape = object({
  agent: text,
  model: nullable(text),
  role: text,
  prompt: text,
  yolo: flag,
  timeoutMs: nullable(count),
  env: texts,
  collect: list(text),
  /** Where the agent may change files. */
  works: oneOf({ files: true, reads: true, sideWorktree: true }),
  iteration: count,
});
export type AskedAgent = TypeOf<typeof askedShape>;

/** One try of an agent call. */
const agentShape = object({
  stageAttempt: count,
  step: text,
  /** 1 for the first. */
  attempt: count,
  asked: askedShape,
  sent: object({
    /** Null: the prompt of `asked`. */
    prompt: nullable(text),
    session: nullable(text),
    forkAt: nullable(text),
  }),
  ran: object({
    /** The agent that ran; it differs from the requested one after a fallback. */
    agent: text,
    model: nullable(text),
    /** As the agent reports it; null: it does not. */
    version: nullable(text),
    /** Null: no process was started. */
    argv: nullable(list(text)),
    environment,
    /** Null: the run has no seed. "not_taken": the agent does not support one. */
    seed: nullable(object({ value: count, how: oneOf({ taken: true, not_taken: true }) })),
  }),
  heard: object({
    events: list(json),
    /** How many events are not kept. */
    left: count,
    /** Digest of all events, those not kept included. */
    digest: text,
  }),
  files: object({ before: nullable(fileMark), after: nullable(fileMark) }),
  milliseconds: count,
  /** Why the try failed; null: the step's result says how it ended. */
  failed: nullable(object({ cause: text, message: text })),
});

/** A command of the user: a gate or a verification. */
const commandShape = object({
  stageAttempt: count,
  /** Null: the command belongs to an effect, not to a step of a stage attempt. */
  step: nullable(text),
  command: text,
  env: texts,
  timeoutMs: nullable(count),
  environment,
  result: json,
});

/** A query to the forge, and its answer. */
const lookupShape = object({
  stageAttempt: count,
  method: text,
  args: list(json),
  answer: variants("kind", { answered: object({ value: json }), refused: object({ code: text, message: text }) }),
});

/** Clock readings of a stage, in order. */
const clockShape = object({ stageAttempt: count, values: list(finite) });

/**
 * A call of a run to the outside world, as a `call.recorded` entry holds it. It is in the commit of its step, so a kill leaves either all
 * of it or nothing. The step has the result; this has the input that the result was made from.
 */
const callShape = variants("kind", {
  agent: agentShape,
  command: commandShape,
  forge: lookupShape,
  clock: clockShape,
});
type RecordedCall = TypeOf<typeof callShape>;
export type RecordedAgent = Extract<RecordedCall, { readonly kind: "agent" }>;
export type RecordedLookup = Extract<RecordedCall, { readonly kind: "forge" }>;

export function parseRecordedCall(entry: Pick<JournalEntry, "run" | "entry" | "body">): RecordedCall {
  return readBody(callShape, { ...entry, kind: "call.recorded" });
}

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

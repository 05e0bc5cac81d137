/** What the page may do: which actions a status allows, and the one command of the CLI that each action is. Pure. */
import { RUN_ID, type RunSummary, checkTagName, isEnded } from "@holdfast/core/run";
import { type RunStatus, isHeld } from "@holdfast/core/status";
import type { Action, AllowedAction } from "@holdfast/dashboard/api";
import { type JsonRecord, asRecord } from "@holdfast/core/json";
import { usageError } from "@holdfast/platform/error";
import { quoteWord } from "../cli/shell.ts";

/** The parts of `<repository>/<run>`. Throws USAGE. */
export function parseKey(key: string): { readonly repository: string; readonly run: string } {
  const at = key.indexOf("/");
  const [repository, run] = [key.slice(0, Math.max(0, at)), key.slice(at + 1)];
  if (!REPOSITORY_KEY.test(repository) || !RUN_ID.test(run))
    throw usageError(`${JSON.stringify(key.slice(0, 200))} does not name a run of a repository`);
  return { repository, run };
}

const REPOSITORY_KEY = /^[A-Za-z0-9._-]+(?:~[A-Za-z0-9]+)?$/;

/** The run that an action changes. */
export function subjectOf(action: Action): { readonly repository: string; readonly run: string } {
  return parseKey(action.kind === "cherry_pick" ? action.into : action.run);
}

/**
 * The commands that do the action, in their order: each a list of arguments after `holdfast`. Nothing of an action can become a flag: ids and
 * tags pass their allow-lists, and other texts stand after `--` or after their flag. `raise`: the flag of the limit that ended the run.
 */
export function commandsOf(action: Action, raise: string | null): readonly (readonly string[])[] {
  const { run } = subjectOf(action);
  switch (action.kind) {
    case "answer":
      return [
        ["approve", run, answerWord(action.answer), ...(action.note === null ? [] : [`--note=${action.note}`])],
        ...(action.resume ? [["resume", run, "--detach"]] : []),
      ];
    case "pause":
      return [["stop", run, "--reason", "paused on the page"]];
    case "abort":
      return [["stop", run, "--now", "--reason", "aborted on the page"]];
    case "checkpoint":
      return [["checkpoint", run, "--name", "saved on the page"]];
    case "remove":
      return [["rm", run]];
    case "resume":
      return [["resume", run, ...action.accept.flatMap((kind) => ["--accept", kind]), "--detach"]];
    case "raise":
      return [["resume", run, ...limitFlags(action, raise), "--detach"]];
    case "restore":
      return [
        ["restore", `${run}@${action.sequence}`, "--yes", ...(action.paths === null ? [] : ["--", ...action.paths])],
      ];
    case "fork":
      return [["fork", `${run}@${action.sequence}`, ...(action.as === null ? [] : ["--as", action.as])]];
    case "tag":
      return [["tag", `${run}@${action.sequence}`, action.name]];
    case "untag":
      return [["tag", run, action.name, "--delete"]];
    case "choose":
      return [["compare", run, ...action.others.map((key) => parseKey(key).run), "--choose", run]];
    case "cherry_pick":
      return [
        ["cherry-pick", `${parseKey(action.from).run}@${action.sequence}`, ...words(action.paths), "--into", run],
      ];
  }
}

/** The command that shows what the action would do, and does nothing; null: the command has no dry run. */
export function dryRunOf(action: Action, raise: string | null): readonly string[] | null {
  switch (action.kind) {
    case "answer":
    case "pause":
    case "abort":
    case "choose":
      return null;
    case "resume":
    case "raise":
    case "checkpoint":
    case "remove":
    case "restore":
    case "fork":
    case "tag":
    case "untag":
    case "cherry_pick": {
      const [argv = []] = commandsOf(action, raise);
      const words = argv.filter((word, at) => word !== "--detach" && !(word === "--yes" && at === 2));
      const end = words.indexOf("--");
      return end === -1 ? [...words, "--dry-run"] : [...words.slice(0, end), "--dry-run", ...words.slice(end)];
    }
  }
}

/** As the user would type it. */
export function commandText(commands: readonly (readonly string[])[]): string {
  return commands.map((argv) => `holdfast ${argv.map(quoteWord).join(" ")}`).join(" && ");
}

function limitFlags(
  { limit, to }: Extract<Action, { readonly kind: "raise" }>,
  raise: string | null,
): readonly string[] {
  switch (limit) {
    case "tokens":
      return ["--max-tokens", String(to)];
    case "microUsd":
      return ["--max-cost", String(to / 1e6)];
    case "milliseconds":
      return ["--max-total-time", `${Math.ceil(to / 60_000)}m`];
    case "iterations":
      if (raise === null) throw usageError("No limit of iterations has ended this run");
      return [`--${raise}`, String(to)];
  }
}

/** An answer that begins with a hyphen would be read as a flag. */
function answerWord(answer: string): string {
  if (answer.startsWith("-")) throw usageError("An answer cannot begin with a hyphen");
  return answer;
}

/** A path that begins with a hyphen would be read as a flag. */
function words(paths: readonly string[]): readonly string[] {
  return paths.map((path) => (path.startsWith("-") ? `./${path}` : path));
}

const KINDS = new Set<Action["kind"]>([
  ...(["answer", "pause", "abort", "checkpoint", "remove", "resume", "raise", "restore"] as const),
  ...(["fork", "tag", "untag", "choose", "cherry_pick"] as const),
]);

/** Parses an action that a page sent. Throws USAGE. Every text passes an allow-list or is an argument that cannot be a flag. */
export function parseAction(value: unknown): Action {
  const given = asRecord(value);
  const kind = [...KINDS].find((one) => one === given["kind"]);
  switch (kind) {
    case undefined:
      throw usageError("There is no such action");
    case "answer":
      return {
        kind,
        run: keyIn(given, "run"),
        question: textIn(given, "question", 2000),
        answer: textIn(given, "answer", 2000),
        note: given["note"] === null || given["note"] === undefined ? null : textIn(given, "note", 2000),
        resume: given["resume"] === true,
      };
    case "pause":
    case "abort":
    case "checkpoint":
    case "remove":
      return { kind, run: keyIn(given, "run") };
    case "resume":
      return { kind, run: keyIn(given, "run"), accept: textsIn(given, "accept", FINDING) };
    case "raise": {
      const limit = (["microUsd", "tokens", "milliseconds", "iterations"] as const).find(
        (one) => one === given["limit"],
      );
      if (limit === undefined) throw usageError("There is no such limit");
      return { kind, run: keyIn(given, "run"), limit, to: countIn(given, "to") };
    }
    case "restore": {
      const paths = given["paths"] === null || given["paths"] === undefined ? null : textsIn(given, "paths", PATH);
      return { kind, run: keyIn(given, "run"), sequence: countIn(given, "sequence"), paths };
    }
    case "fork": {
      const as = given["as"] === null || given["as"] === undefined ? null : textIn(given, "as", 63);
      if (as !== null && !RUN_ID.test(as)) throw usageError(`${JSON.stringify(as)} cannot be a run id`);
      return { kind, run: keyIn(given, "run"), sequence: countIn(given, "sequence"), as };
    }
    case "tag":
    case "untag": {
      const name = checkTagName(textIn(given, "name", 64));
      return { kind, run: keyIn(given, "run"), sequence: countIn(given, "sequence"), name };
    }
    case "choose":
      return { kind, run: keyIn(given, "run"), others: textsIn(given, "others", KEY) };
    case "cherry_pick":
      return {
        kind,
        from: keyIn(given, "from"),
        sequence: countIn(given, "sequence"),
        into: keyIn(given, "into"),
        paths: textsIn(given, "paths", PATH),
      };
  }
}

const FINDING = /^[a-z_]{1,60}(?:=[a-z_]{1,60})?$/;
/** Repository-relative: git itself checks that the checkpoint has it. */
// oxlint-disable-next-line no-control-regex
const PATH = /^(?!\/)(?!(?:.*\/)?\.\.(?:\/|$))[^\u0000]{1,4096}$/;
const KEY = /^[A-Za-z0-9._~-]+\/[a-z0-9-]+$/;

function keyIn(given: JsonRecord, name: string): string {
  const key = textIn(given, name, 300);
  parseKey(key);
  return key;
}

function textIn(given: JsonRecord, name: string, most: number): string {
  const value = given[name];
  if (typeof value !== "string" || value.length === 0 || value.length > most || value.includes("\0"))
    throw usageError(`The action needs a text as ${name}`);
  return value;
}

function countIn(given: JsonRecord, name: string): number {
  const value = given[name];
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 1)
    throw usageError(`The action needs a whole number from 1 as ${name}`);
  return value;
}

function textsIn(given: JsonRecord, name: string, pattern: RegExp): readonly string[] {
  const value = given[name];
  if (!Array.isArray(value) || value.length > 100) throw usageError(`The action needs a list as ${name}`);
  return value.map((one: unknown) => {
    if (typeof one !== "string" || !pattern.test(one)) throw usageError(`The action has a wrong text in ${name}`);
    return one;
  });
}

interface Subject {
  readonly key: string;
  readonly run: Pick<RunSummary, "workflow" | "latest" | "state">;
  readonly status: RunStatus;
}

const HELD = "A process works on it: pause it first.";
const NOT_HELD = "No process works on it.";
const OTHER_HOST = "A process on another host works on it.";

/** The actions on a whole run, each with the reason why it is not possible now. */
export function allowedActions({ key, run, status }: Subject): readonly AllowedAction[] {
  const held = isHeld(status);
  const away = status.kind === "running" && !status.hostKnown;
  const manual = status.kind === "saved";
  const ended = isEnded(status);
  const stop = manual ? "No workflow executes it." : ended ? "It has ended." : away ? OTHER_HOST : null;
  const started = run.latest !== null;
  const stopping = status.kind === "running" && status.stopping !== null ? "It is stopping." : null;
  const continues = (): string | null => {
    if (held) return HELD;
    if (manual) return "No workflow executes it.";
    if (status.kind === "done") return "It is done.";
    if (ended) return "It has ended. Restore or fork a checkpoint to try again.";
    if (!started) return "No stage has started. The same `run` command starts it.";
    if (status.kind === "waiting" && status.question !== null) return "It waits for your answer.";
    return null;
  };
  return [
    { label: "Pause", action: { kind: "pause", run: key }, why: stop ?? (held ? stopping : NOT_HELD), undo: true },
    { label: "Resume", action: { kind: "resume", run: key, accept: [] }, why: continues(), undo: false },
    {
      label: "Save a checkpoint",
      action: { kind: "checkpoint", run: key },
      why: away ? OTHER_HOST : started || manual ? null : "No stage has started.",
      undo: false,
    },
    { label: "Abort", action: { kind: "abort", run: key }, why: stop, undo: false },
    {
      label: "Remove",
      action: { kind: "remove", run: key },
      why: held ? HELD : ended || manual ? null : "It has not ended: abort it first.",
      undo: false,
    },
  ];
}

/** The actions on one checkpoint. */
export function checkpointActions(
  { key, status }: Pick<Subject, "key" | "status">,
  checkpoint: { readonly sequence: number; readonly quarantined: boolean },
): readonly AllowedAction[] {
  const { sequence } = checkpoint;
  const damaged = checkpoint.quarantined ? "It is damaged." : null;
  const why = damaged ?? (isHeld(status) ? HELD : null);
  return [
    { label: "Restore to here", action: { kind: "restore", run: key, sequence, paths: null }, why, undo: true },
    { label: "Fork from here", action: { kind: "fork", run: key, sequence, as: null }, why: damaged, undo: false },
  ];
}

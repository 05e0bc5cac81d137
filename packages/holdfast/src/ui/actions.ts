/** What the page may do: which actions a status allows, and the one command of the CLI that each action is. Pure. */
import { join } from "node:path";
import * as z from "zod/mini";
import { RUN_ID, type RunSummary, checkTagName, isEnded } from "@holdfast/core/run";
import { LITERAL } from "@holdfast/core/cherry-pick";
import { type RunStatus, isHeld } from "@holdfast/core/status";
import type { Action, AllowedAction } from "@holdfast/dashboard/api";
import { usageError } from "@holdfast/platform/error";
import { quoteWord } from "../cli/shell.ts";
import type { NamedRepository } from "../repository-registry.ts";

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
      return [["stop", run, "--now"]];
    case "checkpoint":
      return [["checkpoint", run]];
    case "remove":
      return [["rm", run]];
    case "resume":
      return [
        [
          "resume",
          ...(action.from === null ? [run] : [`${run}@${action.from}`, "--force"]),
          ...action.accept.flatMap((kind) => ["--accept", kind]),
          "--detach",
        ],
      ];
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
        ["cherry-pick", `${parseKey(action.from).run}@${action.sequence}`, "--into", run, "--", ...names(action.paths)],
      ];
  }
}

/** The command that shows what the action would do, and does nothing; null: the command has no dry run. */
export function dryRunOf(action: Action, raise: string | null): readonly string[] | null {
  switch (action.kind) {
    case "answer":
      // Without an answer it shows the question.
      return ["approve", subjectOf(action).run];
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
      const end = [...argv, "--"].indexOf("--");
      const flags = argv.slice(0, end).filter((word) => word !== "--detach" && word !== "--yes");
      return [...flags, "--dry-run", ...argv.slice(end)];
    }
  }
}

/** The flags that make a command work from any directory. */
export function repositoryFlags({ root, store }: Pick<NamedRepository, "root" | "store">): readonly string[] {
  return ["--cwd", root, ...(store === join(root, ".git", "holdfast") ? [] : ["--store", store])];
}

/** As the user would type it in any directory. */
export function commandText(
  repository: Pick<NamedRepository, "root" | "store">,
  ...commands: readonly (readonly string[])[]
): string {
  const words = ["holdfast", ...repositoryFlags(repository)];
  return commands.map((argv) => [...words, ...argv].map(quoteWord).join(" ")).join(" && ");
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

/** The page names files. What looks like a pattern is one file too. */
function names(paths: readonly string[]): readonly string[] {
  return paths.map((path) => (/[*?[]|^:/.test(path) ? `${LITERAL}${path}` : path));
}

const text = (most: number) =>
  z.string().check(
    z.minLength(1),
    z.maxLength(most),
    z.refine((one) => !one.includes("\0")),
  );
const list = <T extends z.ZodMiniType>(item: T) => z.array(item).check(z.maxLength(100));
/** An empty list would mean everything to a command. */
const some = <T extends z.ZodMiniType>(item: T) => list(item).check(z.minLength(1));
const key = text(300).check(z.refine(isKey));
const count = z.int().check(z.gte(1));
/** Repository-relative: git itself checks that the checkpoint has it. */
// oxlint-disable-next-line no-control-regex
const path = z.string().check(z.regex(/^(?!\/)(?!(?:.*\/)?\.\.(?:\/|$))[^\u0000]{1,4096}$/));
const finding = z.string().check(z.regex(/^[a-z_]{1,60}(?:=[a-z_]{1,60})?$/));
const orNull = <T extends z.ZodMiniType>(one: T) => z._default(z.nullable(one), null);
const point = { run: key, sequence: count };

/** Every text passes an allow-list or is an argument that cannot be a flag. */
const ACTION = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("answer"),
    run: key,
    question: text(2000),
    answer: text(2000),
    note: orNull(text(2000)),
    resume: z._default(z.boolean(), false),
  }),
  z.object({ kind: z.enum(["pause", "abort", "checkpoint", "remove"]), run: key }),
  z.object({ kind: z.literal("resume"), run: key, accept: list(finding), from: orNull(count) }),
  z.object({
    kind: z.literal("raise"),
    run: key,
    limit: z.enum(["microUsd", "tokens", "milliseconds", "iterations"]),
    to: count,
  }),
  z.object({ kind: z.literal("restore"), ...point, paths: orNull(some(path)) }),
  z.object({ kind: z.literal("fork"), ...point, as: orNull(z.string().check(z.regex(RUN_ID))) }),
  z.object({ kind: z.enum(["tag", "untag"]), ...point, name: text(64) }),
  z.object({ kind: z.literal("choose"), run: key, others: some(key) }),
  z.object({ kind: z.literal("cherry_pick"), from: key, sequence: count, into: key, paths: some(path) }),
]);

function isKey(one: string): boolean {
  try {
    parseKey(one);
    return true;
  } catch {
    return false;
  }
}

/** Parses an action that a page sent. Throws USAGE. */
export function parseAction(value: unknown): Action {
  const { data, error } = z.safeParse(ACTION, value);
  if (data === undefined) {
    const field = error?.issues[0]?.path[0] ?? "kind";
    throw usageError(field === "kind" ? "There is no such action" : `The action has a wrong value as ${String(field)}`);
  }
  if (data.kind === "answer") answerWord(data.answer);
  if (data.kind === "choose" && data.others.includes(data.run))
    throw usageError("A run is chosen among others, not from itself");
  if (data.kind === "tag" || data.kind === "untag") checkTagName(data.name);
  if (data.kind === "tag" && (data.name === "worktree" || data.name === "base"))
    throw usageError(`A tag cannot be called ${data.name}: addresses of the page use that word for something else`);
  return data;
}

interface Subject {
  readonly key: string;
  readonly run: Pick<RunSummary, "latest" | "forkedFrom" | "checkpoints">;
  readonly status: RunStatus;
  /** The checkpoint from which a run that has ended can continue. */
  readonly restart: number | null;
}

const HELD = "A process works on it: pause it first.";
const NOT_HELD = "No process works on it.";
const otherHost = (host: string): string =>
  `A process on ${host} works on it. The page of the run shows the commands that reach it.`;

/** Why only the holder may change the run now; null: nothing holds it. */
function heldText(status: RunStatus): string | null {
  if (!isHeld(status)) return null;
  return status.kind === "running" && !status.hostKnown ? otherHost(status.holder.host) : HELD;
}

/** The actions on a whole run, each with the reason why it is not possible now. */
export function allowedActions({ key, run, status, restart }: Subject): readonly AllowedAction[] {
  const held = heldText(status);
  const away = status.kind === "running" && !status.hostKnown ? otherHost(status.holder.host) : null;
  const manual = status.kind === "saved";
  const ended = isEnded(status);
  const stop = manual ? "No workflow executes it." : ended ? "It has ended." : away;
  const started = run.latest !== null;
  const untouched = status.kind === "paused" && isUntouchedFork(run);
  const stopping = status.kind === "running" && status.stopping !== null ? "It is stopping." : null;
  const continues = (): string | null => {
    if (held !== null) return held;
    if (manual) return "No workflow executes it.";
    if (status.kind === "done") return "It is done.";
    if (ended) return "It has ended, and no checkpoint is safe to continue from. Fork one to try again.";
    if (!started) return "No stage has started. The same `run` command starts it.";
    if (status.kind === "waiting" && status.question !== null) return "It waits for your answer.";
    return null;
  };
  return [
    {
      label: "Pause",
      action: { kind: "pause", run: key },
      why: stop ?? (held === null ? NOT_HELD : stopping),
    },
    restart === null
      ? { label: "Resume", action: { kind: "resume", run: key, accept: [], from: null }, why: continues() }
      : { label: restartLabel(status, restart), action: restartAction(key, restart), why: null },
    {
      label: "Save a checkpoint",
      action: { kind: "checkpoint", run: key },
      why: away ?? (started || manual ? null : "No stage has started."),
    },
    { label: "Abort", action: { kind: "abort", run: key }, why: stop },
    {
      label: "Remove",
      action: { kind: "remove", run: key },
      why: held ?? (ended || manual || untouched ? null : "It has not ended: abort it first."),
    },
  ];
}

/** Whether a fork has not run yet. */
function isUntouchedFork({ forkedFrom, checkpoints }: Pick<RunSummary, "forkedFrom" | "checkpoints">): boolean {
  return forkedFrom !== null && checkpoints === 1;
}

/** Continues a run that has ended, from one of its checkpoints. */
export function restartAction(run: string, from: number): Action {
  return { kind: "resume", run, accept: [], from };
}

export function restartLabel({ kind }: RunStatus, from: number): string {
  return kind === "done" ? `Continue from @${from}` : `Try again from @${from}`;
}

/** The actions on one checkpoint. */
export function checkpointActions(
  { key, status }: Pick<Subject, "key" | "status">,
  checkpoint: { readonly sequence: number; readonly quarantined: boolean },
): readonly AllowedAction[] {
  const { sequence } = checkpoint;
  const damaged = checkpoint.quarantined ? "It is damaged." : null;
  const why = damaged ?? heldText(status);
  return [
    { label: "Restore to here", action: { kind: "restore", run: key, sequence, paths: null }, why },
    { label: "Fork from here", action: { kind: "fork", run: key, sequence, as: null }, why: damaged },
    { label: "Tag", action: { kind: "tag", run: key, sequence, name: "" }, why: null },
  ];
}

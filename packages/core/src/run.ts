// The run: its id, work, state and summary, the decision to begin or continue one, and the addresses of runs and checkpoints.

import { HoldfastError, describeValue, usageError } from "@holdfast/platform/error";
import type { CheckpointParent } from "./checkpoint.ts";
import type { JsonObject } from "./json.ts";
import { checkArgument } from "./options.ts";

/** Lower-case, safe in a ref, a path and a URL. This is the only allow-list at the border; all other code trusts it. */
export const RUN_ID = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

export type Work =
  | { readonly kind: "issue"; readonly number: number }
  | { readonly kind: "task"; readonly text: string }
  | { readonly kind: "none" };

/** The fields of a run that are fixed at creation. */
export interface Run {
  readonly id: string;
  readonly createdAt: string;
  readonly workflow: string;
  readonly work: Work;
  /** The checkpoint this run was forked from. */
  readonly forkedFrom: CheckpointParent | null;
  readonly labels: JsonObject;
}

/** The part of a run's status that its journal decides. `statusOf` adds the lease and the liveness of its holder. */
export type RunState =
  /** Neither waiting nor ended. */
  | { readonly kind: "active" }
  | {
      readonly kind: "waiting";
      readonly for: WaitingFor;
      readonly reason: string;
      readonly until: string | null;
      /** Absent when there is no question. */
      readonly decision?: PendingDecision;
    }
  /** The user paused it. Only the user continues it. */
  | { readonly kind: "paused"; readonly reason: string }
  | { readonly kind: "done"; readonly at: string }
  | { readonly kind: "failed"; readonly at: string; readonly reason: string }
  | { readonly kind: "aborted"; readonly at: string; readonly reason: string };

/** Whether a run has ended: by its journal, by its status or by the outcome of an execution. */
export function isEnded<S extends { readonly kind: string }>(
  state: S,
): state is Extract<S, { readonly kind: "done" | "failed" | "aborted" }> {
  checkArgument("isEnded()", "the state", state, "object");
  return state.kind === "done" || state.kind === "failed" || state.kind === "aborted";
}

/** Whether a run ended without reaching its goal. */
export function isFailedOrAborted<S extends { readonly kind: string }>(
  state: S,
): state is Extract<S, { readonly kind: "failed" | "aborted" }> {
  return state.kind === "failed" || state.kind === "aborted";
}

/** A question to the user with the allowed answers; no options: any text. */
export type PendingDecision = {
  readonly name: string;
  readonly question: string;
  readonly options: readonly string[];
  /**
   * The user may also remove the reason for the question. A resume without an answer then runs the stage again, which asks again if the
   * reason persists.
   */
  readonly recheck?: boolean;
};

/**
 * "quota": the provider refuses requests for a while. "provider": the provider or the connection to it fails. "forge": the forge fails.
 * "session": its time is over, and it continues when the user resumes it.
 */
export type WaitingFor = "you" | "quota" | "provider" | "forge" | "budget" | "ci" | "disk" | "session";

export interface RunSummary extends Run {
  readonly state: RunState;
  /** Id of the checkpoint whose restore began and did not finish: the files may be a mixture. */
  readonly unfinishedRestore: string | null;
  readonly checkpoints: number;
  readonly latest: {
    readonly sequence: number;
    readonly createdAt: string;
    readonly stage: string;
    readonly iteration: number;
  } | null;
  /** Number of journal entries. */
  readonly entries: number;
}

/**
 * Makes "issue-42-k3f9", "fix-login-bug-k3f9" or "run-k3f9". The id always matches RUN_ID, whatever the task text contains. Every character
 * other than an ASCII letter or digit becomes a hyphen, and a text with nothing left becomes "task". `prefix` goes before all of it.
 */
export function makeRunId(params: { readonly work: Work; readonly random: string; readonly prefix?: string }): string {
  const { work, random, prefix = "" } = params;
  if (!RANDOM.test(random)) {
    throw usageError(
      `The random part of a run id must be 4 to 16 lower-case letters or digits, not ${JSON.stringify(random)}`,
    );
  }
  return `${prefix}${stem(work, READABLE_ID - prefix.length - random.length - 1)}-${random}`;
}

const RANDOM = /^[a-z0-9]{4,16}$/;
/** The longest id that Holdfast makes for a task. A table of 80 columns shows it whole, with the number of a checkpoint. */
export const READABLE_ID = 28;

function stem(work: Work, room: number): string {
  switch (work.kind) {
    case "issue":
      if (!Number.isSafeInteger(work.number) || work.number < 1) {
        throw usageError(
          `An issue number is a whole number from 1, not ${describeValue(work.number)}`,
          'Give the number as in `{ kind: "issue", number: 42 }`.',
        );
      }
      return `issue-${work.number}`;
    case "task":
      checkArgument("A task", "its text", work.text, "text");
      return slug(work.text, room);
    case "none":
      return "run";
  }
}

function slug(text: string, room: number): string {
  const words = text
    // Bounds the cost for a very long text; only the first words are used.
    .slice(0, READABLE_ID * 10)
    .normalize("NFKD")
    .replace(/\p{M}/gu, "")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== "");
  let result = "";
  for (const word of words) {
    const longer = result === "" ? word.slice(0, room) : `${result}-${word}`;
    if (longer.length > room) break;
    result = longer;
  }
  return result === "" ? "task" : result;
}

const TRAILER = "Holdfast-Run";

/**
 * Ends a commit message with the run's trailer, so that the commit leads back to the run. Lines of this name in the text are removed:
 * an agent may have written them. Not `git interpret-trailers`, which runs commands of the repository's config.
 */
export function withRunTrailer(message: string, run: string): string {
  const text = message
    .replaceAll(UNPRINTABLE, "")
    .split("\n")
    .filter((line) => !OWN_TRAILER.test(line))
    .join("\n")
    .trimEnd();
  const last = text.slice(text.lastIndexOf("\n\n") + 2).split("\n");
  const isBlock = text.includes("\n\n") && last.every((line) => ANY_TRAILER.test(line));
  return `${text}${text === "" ? "" : isBlock ? "\n" : "\n\n"}${TRAILER}: ${run}\n`;
}

/** The runs that a commit message names. A squash puts the trailers of its commits anywhere in the text. */
export function runTrailersOf(message: string): readonly string[] {
  const named = message.split(/\r?\n/).flatMap((line) => OWN_TRAILER.exec(line)?.[1]?.trim() ?? []);
  return [...new Set(named.filter((run) => RUN_ID.test(run)))];
}

const OWN_TRAILER = new RegExp(`^\\s*${TRAILER}\\s*:([^\\n]*)$`, "i");
/** Control characters, and overrides of the text direction: `git log` sends them to the terminal of its reader. */
const UNPRINTABLE = /[^\P{Cc}\n\t]|[\u202a-\u202e\u2066-\u2069]/gu;
const ANY_TRAILER = /^(?:[A-Za-z0-9][A-Za-z0-9-]*: \S|\s+\S)/;

/** Label of a run that executes another one again; its value is that run's id. A rerun never counts as the work's own run. */
export const RERUN_OF = "rerun-of";

export interface BeginRequest {
  readonly workflow: string;
  readonly work: Work;
  /** The id that the caller chose; null: the run is found by its issue or task text. */
  readonly id: string | null;
  /** Begin a new run although an earlier one has ended; for a task, also although one is unfinished. */
  readonly again: boolean;
  /** Generates ids for this work; the count starts at 1. */
  readonly nameOf: (count: number) => string;
}

export type BeginPlan =
  | { readonly kind: "begin"; readonly id: string }
  /** An unfinished run of the same work. Its lease decides which process executes it. */
  | { readonly kind: "continue"; readonly id: string }
  /** The work has ended: the outcome of this run is the answer, and nothing is executed. */
  | { readonly kind: "ended"; readonly run: RunSummary };

/**
 * Decides what starting work means, given the runs of the repository (newest first). The key is the workflow and the id, or else the
 * workflow and the issue number or task text. So a supervisor that starts the same work after every crash never gets a second run.
 */
export function planBegin(runs: readonly RunSummary[], request: BeginRequest): BeginPlan {
  const { id, again } = request;
  if (id !== null) {
    const run = runs.find((one) => one.id === id);
    if (run === undefined) return { kind: "begin", id };
    if (!isOfWork(run, request) || !hasEnded(run)) return { kind: "continue", id };
    return again ? { kind: "begin", id: freeName(runs, request) } : { kind: "ended", run };
  }
  const own = runs.filter((run) => isOfWork(run, request) && run.labels[RERUN_OF] === undefined);
  const anyway = again && request.work.kind === "task";
  // Takes the oldest: if several are unfinished, every process that starts the work chooses the same one.
  const unfinished = own.findLast(
    (run) => !hasEnded(run) && run.forkedFrom === null && !(anyway && run.checkpoints > 0),
  );
  if (unfinished !== undefined) return { kind: "continue", id: unfinished.id };
  const ended = again ? undefined : own.find(hasEnded);
  return ended === undefined ? { kind: "begin", id: freeName(runs, request) } : { kind: "ended", run: ended };
}

/** Makes "issue-42", "issue-42-2", "issue-42-3". The number follows the id that the caller chose, which is cut if it would be too long. */
export function numberedId(id: string, count: number): string {
  const suffix = count === 1 ? "" : `-${count}`;
  const numbered = `${id.slice(0, MAX_ID - suffix.length).replace(/-+$/, "")}${suffix}`;
  return RUN_ID.test(numbered) ? numbered : `${id}${suffix}`;
}

const MAX_ID = 63;

function hasEnded({ state }: RunSummary): boolean {
  return isEnded(state);
}

function isOfWork(run: RunSummary, { workflow, work }: BeginRequest): boolean {
  return run.workflow === workflow && isSameWork(run.work, work);
}

function isSameWork(a: Work, b: Work): boolean {
  if (a.kind === "issue") return b.kind === "issue" && a.number === b.number;
  if (a.kind === "task") return b.kind === "task" && a.text === b.text;
  return b.kind === "none";
}

function freeName(runs: readonly RunSummary[], { nameOf }: BeginRequest): string {
  const taken = new Set(runs.map(({ id }) => id));
  for (let count = 1; ; count += 1) {
    const name = nameOf(count);
    if (!taken.has(name)) return name;
  }
}

/** What a user types to name a run or a checkpoint: `RUN`, `RUN@7`, `RUN@latest`, `RUN@tag`, `@7`, `@latest`, `@tag`. */
export interface Address {
  /** Null: the run follows from the context (the worktree, or the only run of the store). */
  readonly run: string | null;
  readonly at: AddressAt;
}

type AddressAt =
  | { readonly kind: "none" }
  | { readonly kind: "sequence"; readonly sequence: number }
  | { readonly kind: "latest" }
  | { readonly kind: "tag"; readonly name: string };

/** Throws USAGE. Every address has one spelling. */
export function parseAddress(text: string): Address {
  // JavaScript callers of the library may pass any value.
  if (typeof text !== "string") throw badAddress(text, "it is not a text");
  const sign = text.indexOf("@");
  const run = sign === -1 ? text : text.slice(0, sign);
  if (run === "" && sign === -1) throw badAddress(text, "it is empty");
  if (run !== "" && !RUN_ID.test(run)) {
    throw badAddress(text, `${JSON.stringify(run)} cannot be a run id (lower-case letters, digits and hyphens)`);
  }
  return { run: run === "" ? null : run, at: sign === -1 ? { kind: "none" } : parseAt(text, text.slice(sign + 1)) };
}

const TAG = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$/;

/** The only allow-list for tags: safe in a ref, a path and a URL, and never confused with a sequence or with `latest`. Throws USAGE. */
export function checkTagName(name: string): string {
  const why = tagProblem(name);
  if (why === null) return name;
  throw usageError(
    `${describeValue(name)} cannot be a tag: ${why}`,
    "Use 1 to 64 letters, digits, dots, hyphens or underscores, beginning and ending with a letter or digit.",
  );
}

function tagProblem(name: string): string | null {
  if (typeof name !== "string") return "it is not a text";
  if (!TAG.test(name)) return "it holds characters that a tag may not have, or is too long";
  if (/^[0-9]+$/.test(name)) return "digits alone name a sequence";
  if (name.toLowerCase() === "latest") return "latest names the newest checkpoint";
  if (name.includes("..") || /\.lock$/i.test(name)) return "git does not accept that name";
  return null;
}

function parseAt(text: string, at: string): AddressAt {
  if (at === "") throw badAddress(text, "nothing follows the @");
  if (at === "latest") return { kind: "latest" };
  if (/^[0-9]+$/.test(at)) {
    const sequence = Number(at);
    if (at.startsWith("0") || !Number.isSafeInteger(sequence)) {
      throw badAddress(text, `${at} is not a sequence (1, 2, 3 …)`);
    }
    return { kind: "sequence", sequence };
  }
  const why = tagProblem(at);
  if (why !== null) throw badAddress(text, `${JSON.stringify(at)} cannot be a tag: ${why}`);
  return { kind: "tag", name: at };
}

function badAddress(text: unknown, why: string): HoldfastError {
  return usageError(
    `${describeValue(text)} does not name a run or a checkpoint: ${why}`,
    "Write RUN, RUN@7, RUN@latest or RUN@tag; inside a run's worktree also @7, @latest or @tag.",
  );
}

/** The id of the run that keeps the work of a process which lost its lease with this epoch. */
export function orphanId(run: string, epoch: number): string {
  const suffix = `-orphan-${epoch}`;
  return `${run.slice(0, 63 - suffix.length).replace(/-+$/, "")}${suffix}`;
}

export function isOrphanId(run: string): boolean {
  return /-orphan-\d+$/.test(run);
}

/** How the work of a run that has failed or was aborted continues. */
export function restartHint(run: string): string {
  return isOrphanId(run)
    ? `It keeps the work of a process that lost its run. Continue that work: \`holdfast fork ${run}@1\`. Not needed any more: \`holdfast rm ${run}\`.`
    : `Choose a checkpoint to restart from: \`holdfast resume ${run}@SEQUENCE --force\`.`;
}

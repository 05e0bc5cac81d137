/** The rows of runs that `holdfast ui` and `list --all-repositories` show. Status and words are those of every other command. */
import { FactsReader } from "@holdfast/core/find-rollback";
import type { JournalEntry } from "@holdfast/core/journal";
import { isJsonObject } from "@holdfast/core/json";
import type { Position } from "@holdfast/core/position";
import type { RunSummary } from "@holdfast/core/run";
import { type RunWithStatus, isRequestUndone } from "@holdfast/core/run-statuses";
import { type RunStatus, statusWord } from "@holdfast/core/status";
import type { Amounts, Budget, Group, Link, RunRow } from "@holdfast/dashboard/api";
import { runJson } from "../cli/run-json.ts";
import { spentKnown } from "../cli/output/quantities.ts";
import { checkTrails } from "../compare-measures.ts";
import type { Holdfast } from "../holdfast.ts";
import { EMPTY_SUMMARY, pullRequestOf, reduceSummary } from "../run-status.ts";
import { StoryReader } from "./run-story.ts";
import { TimelineReader } from "./timeline.ts";

/** What is known of a run besides its summary and status. It depends on the journal alone. */
export interface RunFacts {
  readonly title: string;
  readonly step: RunRow["step"];
  readonly scores: readonly number[];
  readonly checks: RunRow["checks"];
  readonly budget: Budget | null;
  readonly branch: string | null;
  readonly pullRequest: Link | null;
  readonly issue: Link | null;
  readonly crashes: number;
  readonly updatedAt: string;
  readonly damaged: readonly number[];
}

/** Folds a journal as it grows, so that a new entry costs one step and not the whole history. */
export class JournalReader {
  readonly timeline = new TimelineReader();
  readonly story = new StoryReader();
  readonly #facts = new FactsReader();
  #summary = EMPTY_SUMMARY;
  #step: RunRow["step"] = null;
  #crashes = 0;
  #updatedAt: string | null = null;

  read(entry: JournalEntry): void {
    this.timeline.read(entry);
    this.story.read(entry);
    this.#facts.read(entry);
    const before = this.#summary.step;
    this.#summary = reduceSummary(this.#summary, entry);
    const { step } = this.#summary;
    if (step === null) this.#step = null;
    else if (step !== before || this.#step === null) this.#step = { title: step, since: entry.at };
    if (entry.kind === "lease.taken" && isJsonObject(entry.body["from"])) this.#crashes += 1;
    this.#updatedAt = entry.at;
  }

  facts(): Pick<RunFacts, "step" | "scores" | "checks" | "crashes"> & { readonly updatedAt: string | null } {
    const { checks } = this.#facts.facts({ run: "", state: { kind: "active" }, known: [] });
    return {
      step: this.#step,
      scores: this.#summary.scores.map(({ score }) => score),
      checks: checkTrails(checks).map(({ name, trail }) => ({ name, trail: trail.slice(-NEWEST) })),
      crashes: this.#crashes,
      updatedAt: this.#updatedAt,
    };
  }
}

/** Verdicts of one check that a row shows. */
const NEWEST = 40;

/** Reads what the newest whole checkpoint says. `reader` has read the journal up to `run.entries`. */
export async function readFacts(holdfast: Holdfast, run: RunSummary, reader: JournalReader): Promise<RunFacts> {
  const handle = await holdfast.run(run.id);
  const { checkpoint, damaged } = await handle.newestWhole();
  const planes = checkpoint?.planes;
  const { updatedAt, scores, ...facts } = reader.facts();
  const issue = planes?.inputs.issue ?? null;
  const pull = pullRequestOf(planes?.context.values["pullRequest"]);
  const isUndone = pull !== null && (await isRequestUndone(holdfast.store, run.id, pull));
  return {
    ...facts,
    scores: scores.slice(-NEWEST),
    title: titleOf(run, issue?.title ?? null),
    budget: planes === undefined ? null : budgetOf(planes.position.budget),
    branch: planes?.files?.branch?.replace(/^refs\/heads\//, "") ?? null,
    pullRequest: pull === null ? null : link(`PR #${pull.number}${isUndone ? " (undone)" : ""}`, pull.url),
    issue: run.work.kind === "issue" ? link(`#${run.work.number}`, null) : null,
    updatedAt: updatedAt ?? run.createdAt,
    damaged,
  };
}

function titleOf({ id, work }: RunSummary, issueTitle: string | null): string {
  if (work.kind === "issue") return `#${work.number}${issueTitle === null ? "" : ` ${issueTitle}`}`;
  if (work.kind === "task") return work.text.split("\n", 1)[0]?.trim() || id;
  return id;
}

function budgetOf(budget: Position["budget"]): Budget {
  const spent = spentKnown(budget.spent);
  const { tokens, microUsd, milliseconds } = budget.reserved;
  return {
    spent: { tokens: spent.tokens, microUsd: spent.microUsd, milliseconds: budget.spent.milliseconds },
    reserved: { tokens, microUsd, milliseconds },
    limit: budget.limit satisfies Amounts,
  };
}

/** Only web addresses become links: the local forge has `file:` addresses, and a repository may hold anything. */
export function link(text: string, url: string | null): Link {
  return { text, url: url !== null && isWebAddress(url) ? url : null };
}

function isWebAddress(url: string): boolean {
  const parsed = URL.canParse(url) ? new URL(url) : null;
  return parsed !== null && (parsed.protocol === "https:" || parsed.protocol === "http:") && parsed.username === "";
}

export function rowOf(params: {
  readonly repository: string;
  readonly found: Pick<RunWithStatus, "run" | "status">;
  readonly facts: RunFacts;
  readonly now: number;
}): RunRow {
  const { repository, found, facts, now } = params;
  const { run, status } = found;
  const held = status.kind === "running" || status.kind === "crashed";
  return {
    key: `${repository}/${run.id}`,
    repository,
    run: runJson(found),
    statusWord: run.unfinishedRestore === null ? statusWord(status) : "half restored",
    group: groupOf(found, now),
    reason: reasonOf(run, status),
    ...facts,
    step: held ? facts.step : null,
  };
}

/** A failed run asks for attention this long. Afterwards it is history. */
const FAILED_MS = 7 * 24 * 3_600_000;

/** Who must act. The page, its counts and its inbox use this alone. */
export function groupOf({ run, status }: Pick<RunWithStatus, "run" | "status">, now: number): Group {
  if (run.unfinishedRestore !== null && status.kind !== "running") return "you";
  switch (status.kind) {
    case "running":
      return "running";
    case "queued":
    case "paused":
      return "waiting";
    case "waiting":
      return status.for === "you" || status.for === "budget" ? "you" : "waiting";
    case "crashed":
      return "you";
    case "failed":
      return now - Date.parse(status.at) < FAILED_MS ? "you" : "finished";
    case "saved":
    case "done":
    case "aborted":
      return "finished";
  }
}

export const GROUPS = ["you", "running", "waiting", "finished"] as const satisfies readonly Group[];

/** Why it needs the user or why it stopped, in one sentence; null: the status says everything. */
function reasonOf(run: RunSummary, status: RunStatus): string | null {
  if (run.unfinishedRestore !== null)
    return `The restore of ${run.unfinishedRestore} did not finish: the files may be a mixture.`;
  switch (status.kind) {
    case "running":
      if (!status.hostKnown) return `A process on ${status.holder.host} holds it.`;
      if (status.suspended) return "The operating system has stopped its process.";
      if (status.silentSince !== null) return `Its process has sent no heartbeat since ${status.silentSince}.`;
      return null;
    case "queued":
      return status.position === null
        ? "It waits for a slot."
        : `It waits for a slot, ${status.position} in the queue.`;
    case "waiting":
      return status.question?.question ?? status.reason;
    case "paused":
      if (!status.started) return "No stage has started.";
      return status.reason === "" ? null : status.reason;
    case "crashed":
      return status.certain
        ? "Its process exited without releasing its lease. What it had finished is saved."
        : `No heartbeat since ${status.holder.heartbeatAt}: its process on ${status.holder.host} has probably died.`;
    case "failed":
    case "aborted":
      return status.reason === "" ? null : status.reason;
    case "saved":
    case "done":
      return null;
  }
}

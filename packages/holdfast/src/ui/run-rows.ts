/** The rows of runs that `holdfast ui` and `list --all-repositories` show. Status and words are those of every other command. */
import { stripVTControlCharacters } from "node:util";
import type { AgentLogs } from "@holdfast/core/agent-log";
import { type PlacedEffect, placeEffect } from "@holdfast/core/effects";
import { FactsReader } from "@holdfast/core/find-rollback";
import { type JournalEntry, NO_WORK, type WorkedTime, addWork } from "@holdfast/core/journal";
import { isJsonObject } from "@holdfast/core/json";
import { createMasking } from "@holdfast/core/mask";
import type { Position } from "@holdfast/core/position";
import type { RunSummary } from "@holdfast/core/run";
import type { RunWithStatus } from "@holdfast/core/run-statuses";
import { type RunStatus, isHalfRestored, statusWord } from "@holdfast/core/status";
import type { Amounts, Budget, Group, Link, RunRow } from "@holdfast/dashboard/api";
import { runJson } from "../cli/run-json.ts";
import { spentKnown } from "../cli/output/quantities.ts";
import { checkTrails } from "../compare-measures.ts";
import type { Continuer } from "../continuation.ts";
import type { Holdfast } from "../holdfast.ts";
import { EMPTY_SUMMARY, findRequest, isWorking, reduceSummary, savedName, workingOn } from "../run-status.ts";
import { StoryReader } from "./run-story.ts";
import { TimelineReader } from "./timeline.ts";

/** What is known of a run besides its summary and status. It depends on the journal alone. `budget`: at the newest checkpoint. */
export type RunFacts = Omit<
  RunRow,
  "key" | "repository" | "run" | "statusWord" | "group" | "reason" | "continues" | "said"
> & {
  readonly worked: WorkedTime;
};

/** Folds a journal as it grows, so that a new entry costs one step and not the whole history. */
export class JournalReader {
  readonly timeline = new TimelineReader();
  readonly story = new StoryReader();
  /** By key, oldest first. */
  readonly effects = new Map<string, PlacedEffect>();
  readonly #facts = new FactsReader();
  #summary = EMPTY_SUMMARY;
  #step: RunRow["step"] = null;
  #crashes = 0;
  #worked = NO_WORK;
  #updatedAt: string | null = null;

  read(entry: JournalEntry): void {
    this.timeline.read(entry);
    this.story.read(entry);
    this.#facts.read(entry);
    placeEffect(this.effects, entry);
    const before = this.#summary.step;
    this.#summary = reduceSummary(this.#summary, entry);
    const { step } = this.#summary;
    if (step === null) this.#step = null;
    else if (step !== before || this.#step === null) this.#step = { title: step, since: entry.at };
    if (entry.kind === "lease.taken" && isJsonObject(entry.body["from"])) this.#crashes += 1;
    this.#worked = addWork(this.#worked, entry);
    this.#updatedAt = entry.at;
  }

  facts(): Pick<RunFacts, "step" | "scores" | "checks" | "crashes" | "ownMicroUsd" | "worked" | "restored"> & {
    readonly updatedAt: string | null;
  } {
    return {
      step: this.#step,
      scores: this.#summary.scores.map(({ score }) => score),
      checks: checkTrails(this.#facts.history()).map(({ name, trail }) => ({ name, trail: trail.slice(-NEWEST) })),
      crashes: this.#crashes,
      ownMicroUsd: this.timeline.microUsd,
      worked: this.#worked,
      restored: this.#summary.restored,
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
  const branch = planes?.files?.branch;
  const { updatedAt, scores, ...facts } = reader.facts();
  const issue = planes?.inputs.issue ?? null;
  const name = await savedName(holdfast.store, run);
  const pull = await findRequest(holdfast.store, run.id, planes);
  return {
    ...facts,
    scores: scores.slice(-NEWEST),
    title: titleOf(run, issue?.title ?? name),
    budget: planes === undefined ? null : budgetOf(planes.position.budget),
    branch: branch == null ? null : masking.mask(branch.replace(/^refs\/heads\//, "")),
    pullRequest: pull === null ? null : link(`PR #${pull.number}${pull.undone ? " (undone)" : ""}`, pull.url),
    issue: run.work.kind === "issue" ? link(`#${run.work.number}`, null) : null,
    updatedAt: updatedAt ?? run.createdAt,
    damaged,
  };
}

const masking = createMasking();

function titleOf({ id, work }: RunSummary, name: string | null): string {
  if (work.kind === "issue") return `#${work.number}${name === null ? "" : ` ${name}`}`;
  if (work.kind === "task") return work.text.split("\n", 1)[0]?.trim() || id;
  return name ?? id;
}

function budgetOf(budget: Position["budget"]): Budget {
  const spent = spentKnown(budget.spent);
  const { unpriced = 0, uncounted = 0 } = spent;
  const { tokens, microUsd, milliseconds } = budget.reserved;
  return {
    spent: { tokens: spent.tokens, microUsd: spent.microUsd, milliseconds: budget.spent.milliseconds },
    reserved: { tokens, microUsd, milliseconds },
    limit: budget.limit satisfies Amounts,
    unknown: { microUsd: unpriced, tokens: uncounted },
    countsSince: null,
  };
}

/** With the time since the checkpoint. While a process works, the page counts on. */
function budgetNow({ budget, worked }: RunFacts, status: RunStatus, now: number): Budget | null {
  if (budget === null || worked.last === null) return budget;
  const counts = status.kind === "running" && isWorking(status) && status.holder.epoch === worked.last.epoch;
  const milliseconds =
    (budget.spent.milliseconds ?? 0) + worked.total - worked.saved + (counts ? 0 : workingOn(worked, status, now));
  const countsSince = counts ? new Date(worked.last.at).toISOString() : null;
  return { ...budget, spent: { ...budget.spent, milliseconds }, countsSince };
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
  readonly continues: Continuer | null;
  readonly said: string | null;
  readonly now: number;
}): RunRow {
  const { repository, found, facts, continues, said, now } = params;
  const { run, status } = found;
  const { worked: _worked, ...shown } = facts;
  const held = status.kind === "running" || status.kind === "crashed";
  return {
    key: `${repository}/${run.id}`,
    repository,
    run: runJson(found),
    statusWord: isHalfRestored({ ...run, status }) ? "half restored" : statusWord(status),
    group: groupOf({ ...found, continues }, now),
    continues,
    said,
    reason: reasonOf(run, status, facts.restored),
    ...shown,
    budget: budgetNow(facts, status, now),
    step: held ? facts.step : null,
  };
}

/** Of a log, this much of its end is read for its last line. */
const END_BYTES = 4096;
const LONGEST_SAID = 200;

/** The newest line that a person can read. Agents write JSON for programs; then the process in the background has said the same in words. */
export async function lastSaid(logs: Pick<AgentLogs, "list" | "read">, run: string): Promise<string | null> {
  const files = (await logs.list(run)).toSorted((a, b) => (a.modifiedAt < b.modifiedAt ? 1 : -1));
  // Output of a process belongs to no stage attempt.
  for (const file of new Set([files[0], files.find(({ stageAttempt }) => stageAttempt === 0)])) {
    if (file === undefined) continue;
    const start = Math.max(0, file.bytes - END_BYTES);
    const { lines } = await logs.read(file, start);
    const whole = start > 0 ? lines.slice(1) : lines;
    const line = whole.map((one) => stripVTControlCharacters(one).trim()).findLast((one) => one !== "");
    if (line !== undefined && !line.startsWith("{")) return line.slice(0, LONGEST_SAID);
  }
  return null;
}

/** A failed run asks for attention this long. Afterwards it is history. */
const FAILED_MS = 7 * 24 * 3_600_000;

/** Who must act. The page, its counts and its inbox use this alone. */
export function groupOf(
  {
    run,
    status,
    continues,
  }: {
    readonly run: Pick<RunSummary, "unfinishedRestore">;
    readonly status: RunStatus;
    readonly continues: Continuer | null;
  },
  now: number,
): Group {
  if (isHalfRestored({ ...run, status })) return "you";
  switch (status.kind) {
    case "running":
      return "running";
    case "queued":
    case "paused":
      return "waiting";
    case "waiting":
      // Its time has come, and nothing continues it.
      if (status.due && continues === null) return "you";
      return status.for === "you" || status.for === "budget" ? "you" : "waiting";
    case "crashed":
      return "you";
    case "failed":
      // A user who has answered "stop" knows it.
      if (status.reason.startsWith("Stopped by you")) return "finished";
      return now - Date.parse(status.at) < FAILED_MS ? "you" : "finished";
    case "saved":
    case "done":
    case "aborted":
      return "finished";
  }
}

export const GROUPS = ["you", "running", "waiting", "finished"] as const satisfies readonly Group[];

/** Whether a paused run has stopped, and not only been created. */
export function hasRun(
  { forkedFrom, checkpoints }: Pick<RunSummary, "forkedFrom" | "checkpoints">,
  status: RunStatus,
): boolean {
  return status.kind !== "paused" || (status.started && (forkedFrom === null || checkpoints > 1));
}

/** Why it needs the user or why it stopped, in one sentence; null: the status says everything. */
function reasonOf(run: RunSummary, status: RunStatus, restored: number | null): string | null {
  if (isHalfRestored({ ...run, status }))
    return `The restore of ${run.unfinishedRestore} did not finish: the files may be a mixture.`;
  switch (status.kind) {
    case "running":
      if (!status.hostKnown) return `A process on ${status.holder.host} holds it.`;
      if (status.suspended) return "The operating system has stopped its process.";
      if (status.silentSince !== null) return `Its process has sent no heartbeat since ${status.silentSince}.`;
      return null;
    case "queued":
      if (status.holder === null) return "It was submitted and waits for a worker.";
      return status.position === null
        ? "It waits for a slot."
        : `It waits for a slot, ${status.position} in the queue.`;
    case "waiting":
      return status.question?.question ?? status.reason;
    case "paused":
      if (!status.started) return "No stage has started.";
      if (!hasRun(run, status)) return "It is a fork that has not run yet.";
      return status.reason === ""
        ? null
        : (status.reason?.replace(" (page): paused on the page", " on the page") ?? null);
    case "crashed":
      return status.certain
        ? "Its process ended unexpectedly (kill, crash or power cut). What it had finished is saved."
        : `No heartbeat since ${status.holder.heartbeatAt}: its process on ${status.holder.host} has probably died.`;
    case "failed":
    case "aborted":
      return status.reason === "" ? null : status.reason;
    case "done":
      return restored === null ? null : `Restored to @${restored} since; nothing continues it.`;
    case "saved":
      return null;
  }
}

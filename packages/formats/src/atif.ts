// Exports a run as an ATIF trajectory, from its journal and the agents' logs.

import type { InputsPlane } from "@holdfast/core/checkpoint";
import type { JournalEntry } from "@holdfast/core/journal";
import { type Json, type JsonObject, isJsonObject } from "@holdfast/core/json";
import type { Run } from "@holdfast/core/run";
import {
  type FinalMetrics,
  type ReadLog,
  type Trajectory,
  type TrajectoryAgent,
  type UnnumberedStep,
  contentText,
  numberSteps,
  readLog,
} from "./atif-agent-log.ts";
import { field } from "./document.ts";
import type { Encoded, Loss } from "./format.ts";
import { writeJson } from "./strict-json.ts";

export interface AtifSource {
  readonly run: Run;
  /** Every entry of the run's journal, in order. */
  readonly entries: readonly JournalEntry[];
  /** Raw output of agent calls, as far as it was kept. */
  readonly logs: readonly AgentLog[];
  /** The original inputs of the run; null if no checkpoint has them. */
  readonly inputs: InputsPlane | null;
  /** Holdfast's version, with the agent and model of the run's configuration. */
  readonly conductor: { readonly version: string; readonly agent: string | null; readonly model: string | null };
}

export interface AgentLog {
  readonly stageAttempt: number;
  readonly step: string;
  readonly lines: readonly string[];
}

/**
 * Exports a run's transcript for viewers and training. The workflow is the root trajectory, in which no model was
 * asked. Every agent call is an embedded trajectory, because no call saw the conversation of another.
 */
export function exportAtif(source: AtifSource): Encoded {
  const { run, conductor } = source;
  const journal = readJournal(source.entries, run.id);
  const read = [
    ...journal.calls.map((call) => callTrajectory(source, call)),
    ...unfinishedCalls(source, journal.calls).map((log) => logTrajectory(source, log)),
  ];
  const calls = read.map(({ trajectory }) => trajectory);
  const steps = numberSteps([taskStep(source), ...journal.steps]);
  const trajectory: Trajectory = {
    schema_version: "ATIF-v1.7",
    session_id: run.id,
    trajectory_id: run.id,
    agent: {
      name: "holdfast",
      version: conductor.version,
      ...(conductor.model === null ? {} : { model_name: conductor.model }),
      ...(conductor.agent === null ? {} : { extra: { agent: conductor.agent } }),
    },
    steps,
    notes: NOTES,
    final_metrics: { ...totalsOf(journal.calls), total_steps: steps.length },
    ...(calls.length === 0 ? {} : { subagent_trajectories: calls }),
    extra: { holdfast: { workflow: run.workflow, created_at: run.createdAt, labels: run.labels } },
  };
  const prompts = {
    path: "prompts",
    why: "The journal does not keep them; they are there where an agent's log repeats them",
  };
  return {
    // A trajectory is JSON, but TypeScript does not accept an interface without an index signature as JsonObject.
    bytes: writeJson(trajectory as object as JsonObject),
    path: `${run.id}.trajectory.json`,
    losses: [
      ...(journal.calls.length === 0 ? [] : [prompts]),
      ...eachOnce(read.flatMap(({ losses }) => losses)),
      ...journal.losses,
    ],
  };
}

const NOTES =
  "The steps of the root are those of the workflow; none of them asked a model. Each agent call is an embedded trajectory. " +
  "The final metrics of the root are the sums over all calls, as the agents reported them.";

function taskStep({ run, inputs }: AtifSource): UnnumberedStep {
  const { work } = run;
  const issue = inputs?.issue ?? null;
  const description = issue === null ? (inputs?.task ?? null) : `${issue.title}\n\n${issue.body}`.trim();
  const base = { timestamp: run.createdAt, source: "user" } as const;
  switch (work.kind) {
    case "issue":
      return { ...base, message: `Issue #${work.number}${description === null ? "" : `: ${description}`}` };
    case "task":
      return { ...base, message: work.text };
    case "none":
      return { ...base, message: description ?? "" };
  }
}

interface ReadCall {
  readonly trajectory: Trajectory;
  readonly losses: readonly Loss[];
}

/** Logs of interrupted or running calls. Their output so far is all that exists of them. */
function unfinishedCalls({ logs }: AtifSource, calls: readonly AgentCall[]): readonly AgentLog[] {
  return logs.filter(
    ({ stageAttempt, step, lines }) =>
      !calls.some((call) => call.stageAttempt === stageAttempt && call.step === step) &&
      readLog(lines).steps.length > 0,
  );
}

function logTrajectory({ run, conductor }: AtifSource, { stageAttempt, step, lines }: AgentLog): ReadCall {
  const log = readLog(lines);
  const steps = numberSteps(log.steps);
  const trajectory: Trajectory = {
    schema_version: "ATIF-v1.7",
    trajectory_id: `${run.id}/${stageAttempt}/${step}/unfinished`,
    ...(log.session === null ? {} : { session_id: log.session }),
    agent: agentOf(log, conductor),
    steps,
    final_metrics: { ...log.totals, total_steps: steps.length },
    extra: { holdfast: { stageAttempt, step, outcome: "unfinished" }, ...othersOf(log) },
  };
  return { trajectory, losses: log.losses };
}

function agentOf(log: ReadLog, conductor: AtifSource["conductor"]): TrajectoryAgent {
  const model = log.model ?? conductor.model;
  return {
    name: conductor.agent ?? "agent",
    version: log.version ?? "unknown",
    ...(model === null ? {} : { model_name: model }),
  };
}

function othersOf({ others }: ReadLog): JsonObject {
  return others.length === 0 ? {} : { other_events: others };
}

/** Reports each loss once for all calls. */
function eachOnce(losses: readonly Loss[]): readonly Loss[] {
  return [...new Map(losses.map((loss) => [loss.path, loss])).values()];
}

function callTrajectory({ logs, conductor }: AtifSource, call: AgentCall): ReadCall {
  const lines = logs
    .filter((log) => log.stageAttempt === call.stageAttempt && log.step === call.step)
    .flatMap((log) => log.lines);
  const log = readLog(lines);
  const session = call.session ?? log.session;
  const last: UnnumberedStep = {
    timestamp: call.at,
    source: "agent",
    message: call.text,
    ...(call.usage === null ? {} : { metrics: stepMetrics(call.usage) }),
  };
  const steps = numberSteps(log.steps.length === 0 ? [last] : log.steps);
  const trajectory: Trajectory = {
    schema_version: "ATIF-v1.7",
    trajectory_id: call.id,
    ...(session === null ? {} : { session_id: session }),
    agent: agentOf(log, conductor),
    steps,
    final_metrics: { ...log.totals, ...totalsOf([call]), total_steps: steps.length },
    extra: {
      holdfast: { stageAttempt: call.stageAttempt, step: call.step, entry: call.entry, ...call.facts },
      ...othersOf(log),
    },
  };
  return { trajectory, losses: log.losses };
}

function stepMetrics(usage: NonNullable<AgentCall["usage"]>): NonNullable<UnnumberedStep["metrics"]> {
  return {
    ...(usage.input === null ? {} : { prompt_tokens: usage.input }),
    ...(usage.output === null ? {} : { completion_tokens: usage.output }),
    ...(usage.microUsd === null ? {} : { cost_usd: usage.microUsd / 1_000_000 }),
  };
}

/** A value that no call reported is left out: unknown is not 0. */
function totalsOf(calls: readonly AgentCall[]): FinalMetrics {
  const sum = (name: "input" | "output" | "microUsd"): number | null => {
    const counts = calls.flatMap((call) => call.usage?.[name] ?? []);
    return counts.length === 0 ? null : counts.reduce((a, b) => a + b, 0);
  };
  const [input, output, microUsd] = [sum("input"), sum("output"), sum("microUsd")];
  return {
    ...(input === null ? {} : { total_prompt_tokens: input }),
    ...(output === null ? {} : { total_completion_tokens: output }),
    ...(microUsd === null ? {} : { total_cost_usd: microUsd / 1_000_000 }),
  };
}

/** A finished agent call, from its step's result. */
interface AgentCall {
  /** Unique in the run, even if a restored run executed the same step again. */
  readonly id: string;
  readonly stageAttempt: number;
  readonly step: string;
  readonly entry: number;
  readonly at: string;
  readonly text: string;
  readonly session: string | null;
  readonly usage: {
    readonly input: number | null;
    readonly output: number | null;
    readonly microUsd: number | null;
  } | null;
  readonly facts: JsonObject;
}

interface ReadJournal {
  readonly steps: readonly UnnumberedStep[];
  readonly calls: readonly AgentCall[];
  readonly losses: readonly Loss[];
}

/** Converts entries to steps in order. Bookkeeping entries are left out and reported as losses. */
function readJournal(entries: readonly JournalEntry[], run: string): ReadJournal {
  const calls: AgentCall[] = [];
  const skipped = new Map<string, number>();
  const outcomes = outcomesOf(entries);
  const steps = entries.flatMap((entry) => {
    const step = stepOf(entry, { run, calls, outcomes });
    if (step === null) skipped.set(entry.kind, (skipped.get(entry.kind) ?? 0) + 1);
    return step === null ? [] : [step];
  });
  const losses = [...skipped].map(([kind, count]) => ({
    path: `journal.${kind}`,
    why: `Bookkeeping that is not part of a transcript (${count})`,
  }));
  return { steps, calls, losses };
}

interface Reading {
  readonly run: string;
  readonly calls: AgentCall[];
  /** The outcome of each effect, by its key. */
  readonly outcomes: ReadonlyMap<string, JsonObject>;
}

function stepOf(entry: JournalEntry, reading: Reading): UnnumberedStep | null {
  const { kind, body } = entry;
  const extra = { holdfast: { entry: entry.entry, kind } };
  const system = (message: string): UnnumberedStep => ({ timestamp: entry.at, source: "system", message, extra });
  const text = (name: string): string => contentText(field(body, name) ?? "");
  switch (kind) {
    case "stage.entered":
      return system(`Stage ${text("stage")}, iteration ${text("iteration")}`);
    case "stage.ended":
      return system(`Stage ${text("stage")} ended with ${text("event")}, next ${text("next")}: ${text("reason")}`);
    case "step.finished":
      return field(body, "recorded") === true
        ? system(`Recorded ${text("step")}: ${text("result")}`)
        : finished(entry, reading);
    case "graph.set":
      return system(`Graph ${contentText(field(body, "graph") ?? "")}`);
    case "graph.moved":
      return system(`Graph moved: ${text("events")}`);
    case "step.failed":
      return called(entry, {
        name: text("step"),
        arguments: stageAttemptOf(body),
        content: text("reason"),
        failed: true,
      });
    case "effect.intended":
      return effect(entry, reading);
    case "run.waiting":
      return system(`Waiting for ${text("for")}: ${text("reason")}`);
    case "run.paused":
      return system(`Paused: ${text("reason")}`);
    case "run.continued": {
      const answer = field(body, "answer");
      if (answer === undefined || answer === null) return system("Resumed");
      return { timestamp: entry.at, source: "user", message: contentText(answer), extra };
    }
    case "run.ended":
      return system(`Ended: ${text("outcome")}${field(body, "reason") === undefined ? "" : `, ${text("reason")}`}`);
    case "run.reopened":
      return system(`Reopened: ${text("reason")}`);
    case "restore.started":
    case "restore.finished":
      return system(`${kind === "restore.started" ? "Restoring" : "Restored"} ${contentText(body)}`);
    case "note":
      return system(text("text"));
    default:
      return kind.startsWith("x.") ? system(`${kind} ${contentText(body)}`) : null;
  }
}

function finished(entry: JournalEntry, reading: Reading): UnnumberedStep {
  const { body } = entry;
  const name = contentText(field(body, "step") ?? "");
  const result = field(body, "result") ?? null;
  const call = callOf(entry, name, result, reading);
  if (call === null)
    return called(entry, { name, arguments: stageAttemptOf(body), content: contentText(result), failed: false });
  reading.calls.push(call);
  return called(entry, {
    name,
    arguments: stageAttemptOf(body),
    content: call.text,
    failed: false,
    trajectory: call.id,
  });
}

/** Recognises an agent's report by the fields that only such a report has. */
function callOf(entry: JournalEntry, step: string, result: Json, { run, calls }: Reading): AgentCall | null {
  if (!isJsonObject(result)) return null;
  const { outcome, text, usage, session, ...facts } = result;
  if ((outcome !== "completed" && outcome !== "failed") || typeof text !== "string" || !isJsonObject(usage))
    return null;
  const stageAttempt = Number(field(entry.body, "stageAttempt") ?? 0);
  const id = `${run}/${stageAttempt}/${step}`;
  const amount = (name: string): number | null => {
    const value = field(usage, name);
    return typeof value === "number" ? value : null;
  };
  return {
    id: calls.some((call) => call.id === id) ? `${id}/${entry.entry}` : id,
    stageAttempt,
    step,
    entry: entry.entry,
    at: entry.at,
    text,
    session: typeof session === "string" ? session : null,
    usage: { input: amount("inputTokens"), output: amount("outputTokens"), microUsd: amount("microUsd") },
    facts: { outcome, ...facts },
  };
}

/** A step of the workflow itself: a call that no model requested, with its result. */
function called(
  entry: JournalEntry,
  call: {
    readonly name: string;
    readonly arguments: JsonObject;
    readonly content: string;
    readonly failed: boolean;
    readonly trajectory?: string;
  },
): UnnumberedStep {
  const id = `entry-${entry.entry}`;
  return {
    timestamp: entry.at,
    source: "agent",
    message: "",
    tool_calls: [{ tool_call_id: id, function_name: call.name, arguments: call.arguments }],
    observation: {
      results: [
        {
          source_call_id: id,
          content: call.content,
          ...(call.trajectory === undefined ? {} : { subagent_trajectory_ref: [{ trajectory_id: call.trajectory }] }),
          ...(call.failed ? { extra: { is_error: true } } : {}),
        },
      ],
    },
    llm_call_count: 0,
    extra: { holdfast: { entry: entry.entry, kind: entry.kind } },
  };
}

function effect(entry: JournalEntry, { outcomes }: Reading): UnnumberedStep {
  const { body } = entry;
  const key = contentText(field(body, "key") ?? "");
  const outcome = outcomes.get(key);
  return called(entry, {
    name: contentText(field(body, "kind") ?? "effect"),
    arguments: { target: field(body, "target") ?? null, detail: field(body, "detail") ?? {} },
    content: outcome === undefined ? "not settled" : contentText(outcome),
    failed: outcome?.["outcome"] !== "done",
  });
}

function outcomesOf(entries: readonly JournalEntry[]): ReadonlyMap<string, JsonObject> {
  const outcomes = new Map<string, JsonObject>();
  for (const { kind, body } of entries) {
    if (
      kind === "effect.settled" ||
      kind === "effect.unknown" ||
      (kind === "effect.undone" && body["outcome"] !== "kept")
    )
      outcomes.set(contentText(field(body, "key") ?? ""), body);
  }
  return outcomes;
}

function stageAttemptOf(body: JsonObject): JsonObject {
  return { stageAttempt: field(body, "stageAttempt") ?? 0 };
}

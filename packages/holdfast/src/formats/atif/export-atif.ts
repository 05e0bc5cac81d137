import type { InputsPlane } from "../../core/checkpoint/checkpoint.ts";
import type { JournalEntry } from "../../core/journal/journal.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Run } from "../../core/run/run.ts";
import type { Encoded, Loss } from "../format.ts";
import { writeJson } from "../write-json.ts";
import { readJournal } from "./read-journal.ts";
import type { AgentCall } from "./read-journal.ts";
import { readLog } from "./read-log.ts";
import type { ReadLog } from "./read-log.ts";
import { numbered } from "./trajectory.ts";
import type { FinalMetrics, Trajectory, TrajectoryAgent, UnnumberedStep } from "./trajectory.ts";

export interface AtifSource {
  readonly run: Run;
  /** All of them, in order. */
  readonly entries: readonly JournalEntry[];
  /** Raw output of agent calls, as far as it was kept. */
  readonly logs: readonly AgentLog[];
  /** What the run was given to work on, as it was at first; null when no checkpoint says so. */
  readonly inputs: InputsPlane | null;
  /** Who conducted the run: Holdfast and its version, with the model of the run's configuration. */
  readonly conductor: { readonly version: string; readonly agent: string | null; readonly model: string | null };
}

export interface AgentLog {
  readonly visit: number;
  readonly step: string;
  readonly lines: readonly string[];
}

/**
 * A run's transcript for viewers and training: the workflow is one trajectory in which no model was asked, and every call of
 * an agent is a trajectory of its own inside it, because no call saw the conversation of another.
 */
export function exportAtif(source: AtifSource): Encoded {
  const { run, conductor } = source;
  const journal = readJournal(source.entries, run.id);
  const read = [
    ...journal.calls.map((call) => callTrajectory(source, call)),
    ...unfinishedCalls(source, journal.calls).map((log) => logTrajectory(source, log)),
  ];
  const calls = read.map(({ trajectory }) => trajectory);
  const steps = numbered([taskStep(source), ...journal.steps]);
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
    // A trajectory is JSON; an interface without index signature is not JsonObject to the compiler.
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
  const told = issue === null ? (inputs?.task ?? null) : `${issue.title}\n\n${issue.body}`.trim();
  const base = { timestamp: run.createdAt, source: "user" } as const;
  switch (work.kind) {
    case "issue":
      return { ...base, message: `Issue #${work.number}${told === null ? "" : `: ${told}`}` };
    case "task":
      return { ...base, message: work.text };
    case "none":
      return { ...base, message: told ?? "" };
  }
}

interface ReadCall {
  readonly trajectory: Trajectory;
  readonly losses: readonly Loss[];
}

/** Of calls that were cut off, or are under way: what they said so far is all that there is of them. */
function unfinishedCalls({ logs }: AtifSource, calls: readonly AgentCall[]): readonly AgentLog[] {
  return logs.filter(
    ({ visit, step, lines }) =>
      !calls.some((call) => call.visit === visit && call.step === step) && readLog(lines).steps.length > 0,
  );
}

function logTrajectory({ run, conductor }: AtifSource, { visit, step, lines }: AgentLog): ReadCall {
  const log = readLog(lines);
  const steps = numbered(log.steps);
  const trajectory: Trajectory = {
    schema_version: "ATIF-v1.7",
    trajectory_id: `${run.id}/${visit}/${step}/unfinished`,
    ...(log.session === null ? {} : { session_id: log.session }),
    agent: agentOf(log, conductor),
    steps,
    final_metrics: { ...log.totals, total_steps: steps.length },
    extra: { holdfast: { visit, step, outcome: "unfinished" }, ...othersOf(log) },
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

/** Told once, of however many calls. */
function eachOnce(losses: readonly Loss[]): readonly Loss[] {
  return [...new Map(losses.map((loss) => [loss.path, loss])).values()];
}

function callTrajectory({ logs, conductor }: AtifSource, call: AgentCall): ReadCall {
  const lines = logs.filter((log) => log.visit === call.visit && log.step === call.step).flatMap((log) => log.lines);
  const log = readLog(lines);
  const session = call.session ?? log.session;
  const last: UnnumberedStep = {
    timestamp: call.at,
    source: "agent",
    message: call.text,
    ...(call.usage === null ? {} : { metrics: stepMetrics(call.usage) }),
  };
  const steps = numbered(log.steps.length === 0 ? [last] : log.steps);
  const trajectory: Trajectory = {
    schema_version: "ATIF-v1.7",
    trajectory_id: call.id,
    ...(session === null ? {} : { session_id: session }),
    agent: agentOf(log, conductor),
    steps,
    final_metrics: { ...log.totals, ...totalsOf([call]), total_steps: steps.length },
    extra: {
      holdfast: { visit: call.visit, step: call.step, entry: call.entry, ...call.facts },
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

/** What no call told is left out: unknown is not 0. */
function totalsOf(calls: readonly AgentCall[]): FinalMetrics {
  const sum = (name: "input" | "output" | "microUsd"): number | null => {
    const told = calls.flatMap((call) => call.usage?.[name] ?? []);
    return told.length === 0 ? null : told.reduce((a, b) => a + b, 0);
  };
  const [input, output, microUsd] = [sum("input"), sum("output"), sum("microUsd")];
  return {
    ...(input === null ? {} : { total_prompt_tokens: input }),
    ...(output === null ? {} : { total_completion_tokens: output }),
    ...(microUsd === null ? {} : { total_cost_usd: microUsd / 1_000_000 }),
  };
}

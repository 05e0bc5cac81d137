import type { InputsPlane } from "../../core/checkpoint.ts";
import type { JournalEntry } from "../../core/journal.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Run } from "../../core/run.ts";
import type { Encoded } from "../format.ts";
import { writeJson } from "../write-json.ts";
import { readJournal } from "./read-journal.ts";
import type { AgentCall } from "./read-journal.ts";
import { readLog } from "./read-log.ts";
import { numbered } from "./trajectory.ts";
import type { FinalMetrics, Trajectory, TrajectoryAgent, UnnumberedStep } from "./trajectory.ts";

export interface AtifSource {
  readonly run: Run;
  /** All of them, in order. */
  readonly entries: readonly JournalEntry[];
  /** Raw output of agent calls, as far as it was kept. */
  readonly logs: readonly AgentLog[];
  /** Of the run's first checkpoint; null when it has none. */
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
  const calls = journal.calls.map((call) => callTrajectory(source, call));
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
    losses: [...(journal.calls.length === 0 ? [] : [prompts]), ...journal.losses],
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

function callTrajectory({ logs, conductor }: AtifSource, call: AgentCall): Trajectory {
  const lines = logs.filter((log) => log.visit === call.visit && log.step === call.step).flatMap((log) => log.lines);
  const log = readLog(lines);
  const session = call.session ?? log.session;
  const model = log.model ?? conductor.model;
  const agent: TrajectoryAgent = {
    name: conductor.agent ?? "agent",
    version: log.version ?? "unknown",
    ...(model === null ? {} : { model_name: model }),
  };
  const last: UnnumberedStep = {
    timestamp: call.at,
    source: "agent",
    message: call.text,
    ...(call.usage === null ? {} : { metrics: stepMetrics(call.usage) }),
  };
  const steps = numbered(log.steps.length === 0 ? [last] : log.steps);
  return {
    schema_version: "ATIF-v1.7",
    trajectory_id: call.id,
    ...(session === null ? {} : { session_id: session }),
    agent,
    steps,
    final_metrics: { ...log.totals, ...totalsOf([call]), total_steps: steps.length },
    extra: {
      holdfast: { visit: call.visit, step: call.step, entry: call.entry, ...call.facts },
      ...(log.others.length === 0 ? {} : { other_events: log.others }),
    },
  };
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

// The members of a crunch document for a run that Holdfast executes: crunch's own members, and Holdfast's member with
// the full state.

import { isWaiting, stateOf } from "@holdfast/core/graph-state";
import type { Json, JsonObject } from "@holdfast/core/json";
import type { Position } from "@holdfast/core/position";
import { HOLDFAST_MEMBER, defaultRecovery, encodeGraph } from "@holdfast/formats/crunch-document";
import { phaseWord } from "@holdfast/formats/crunch-words";
import type { ExternalCheckpoint } from "@holdfast/formats/format";
import { HoldfastError } from "@holdfast/platform/error";
import { capturedEntries } from "./knowledge.ts";
import { awaitingMessages, pendingMessages } from "./message-log.ts";
import { parsePhase, stateLabel } from "./phases.ts";
import { type AgentOutput, type CrunchState, parseCrunchEvent, parseCrunchState, reduceCrunch } from "./state.ts";
import { type Team, memberCounts } from "./team.ts";

/** A checkpoint of a crunch run that Holdfast executes. Its values are crunch's own state. */
interface CrunchRun {
  readonly state: CrunchState;
  /** The phase of the issue; for an ended run, the phase in which it ended. */
  readonly phase: string;
  /** The position without a graph that an earlier phase left behind. */
  readonly position: Position;
}

/** Adds what a document of the run says beyond its planes. Another checkpoint is returned unchanged. */
export function describeCrunchRun(checkpoint: ExternalCheckpoint): ExternalCheckpoint {
  const live = readCrunchRun(checkpoint);
  if (live === null) return checkpoint;
  // The run's own branch, even before a worktree has it checked out.
  const { branch } = live.state;
  return { ...checkpoint, described: { stage: live.phase, branch, members: documentMembers(live) } };
}

/** Returns null if the checkpoint belongs to another workflow or to a document without this state. */
function readCrunchRun({ workflow, planes }: Pick<ExternalCheckpoint, "workflow" | "planes">): CrunchRun | null {
  if (workflow !== "crunch" || !Object.hasOwn(planes.context.values, "messages")) return null;
  const { position } = planes;
  const state = readState(planes.context.values, position.stageAttempt.unreduced ?? []);
  if (state === null) return null;
  const phase = parsePhase(position.stage) ?? state.phases.at(-1)?.phase ?? position.stage;
  const left = position.stageAttempt.number > 0 && position.stageAttempt.graph !== true;
  return { state, phase, position: left ? { ...position, graph: null } : position };
}

/**
 * Applies recorded events that are not part of the values yet. The workflow reduces them only when it resumes the run.
 */
function readState(values: JsonObject, unreduced: readonly Json[]): CrunchState | null {
  try {
    return unreduced.reduce<CrunchState>(
      (state, event) => reduceCrunch(state, parseCrunchEvent(event)),
      parseCrunchState(values),
    );
  } catch (error) {
    if (error instanceof HoldfastError) return null;
    throw error;
  }
}

/**
 * Encodes everything a run needs to continue. Crunch's own readers ignore this member. Crunch's members hold the same
 * data as far as they go; if another tool changed one of those, the decoder uses the changed one.
 */
function encodeHoldfastMember({ state, position }: CrunchRun): JsonObject {
  const { stageAttempt: _steps, ...rest } = position;
  // Both are JSON, but TypeScript does not accept an interface without an index signature as Json.
  return { version: 1, position: rest as object as JsonObject, values: state as object as JsonObject };
}

/** Derives crunch's own members from the run's state, so that none can be out of date. */
function documentMembers(live: CrunchRun): JsonObject {
  const { state, position } = live;
  return {
    workflow_state: stateMember(live),
    team_state: teamMember(live),
    execution_graph: position.graph === null ? {} : encodeGraph(position.graph),
    agent_outputs: outputsMember(state.outputs),
    acp_state: {
      pending_messages: pendingMessages(state.messages).map(({ id }) => id),
      awaiting_response: awaitingMessages(state.messages).map(({ id }) => id),
      conflicts_in_progress: state.conflicts.filter(({ resolution }) => resolution === null).map(({ id }) => id),
    },
    knowledge_context: {
      injected_entries: [...new Set(state.knowledge.injected.flatMap(({ entries }) => entries))],
      captured_entries: [...capturedEntries(state.knowledge)],
      pending_captures: state.knowledge.pending.map(({ name, type, tags }) => ({ name, type, tags })),
    },
    recovery_info: recoveryMember(live),
    [HOLDFAST_MEMBER]: encodeHoldfastMember(live),
  };
}

function stateMember({ state, phase }: CrunchRun): JsonObject {
  const attempts = state.phases.filter((attempt) => attempt.phase === phase);
  const newest = state.phases.at(-1);
  const here = newest?.phase === phase ? newest : null;
  const known = parsePhase(phase);
  return {
    current_phase: phaseWord(phase),
    current_state_label: known === null ? null : stateLabel(known),
    // A transition led to this phase, but it has not started: it has no start time and is the next attempt.
    ...(here === null ? {} : { phase_started_at: here.startedAt }),
    phase_attempt: here === null ? attempts.length + 1 : here.attempt,
  };
}

function teamMember(live: CrunchRun): JsonObject {
  const team = withPlanned(live);
  if (team === null) return {};
  const { score, level } = team.complexity;
  return {
    team_id: team.id,
    complexity: { score, level },
    members: team.members.map(({ agent, role }) => {
      const { status, completed, pending } = memberCounts(team, agent);
      return { agent, role, status, tasks_completed: completed, tasks_pending: pending };
    }),
  };
}

/**
 * Adds the waiting nodes of the graph as pending tasks, because their agents will do them. In a further round of a
 * phase they count again.
 */
function withPlanned({ state, position, phase }: CrunchRun): Team | null {
  const { team } = state;
  const { graph } = position;
  const known = parsePhase(phase);
  if (team === null || graph === null || known === null) return team;
  const waiting = graph.nodes.filter(({ id }) => isWaiting(stateOf(graph, id)));
  const planned = waiting.map(
    ({ id, agent }) => [`${known}/${id}`, { agent, phase: known, status: "pending" }] as const,
  );
  return { ...team, tasks: { ...team.tasks, ...Object.fromEntries(planned) } };
}

/**
 * Outputs by agent and action. If an agent performed an action for several nodes or phases, each output gets its own
 * name.
 */
function outputsMember(outputs: readonly AgentOutput[]): JsonObject {
  const byAgent: Record<string, Record<string, Json>> = {};
  for (const output of outputs) {
    const actions = (byAgent[output.agent] ??= {});
    const { action, node, phase } = output;
    const names = [action, `${action} (${node})`, `${action} (${phase}/${node})`];
    const name = names.find((one) => !Object.hasOwn(actions, one)) ?? action;
    actions[name] = {
      completed_at: output.completedAt,
      output_summary: output.summary,
      output_location: output.location,
      node,
    };
  }
  return byAgent;
}

function recoveryMember({ position, phase }: CrunchRun): JsonObject {
  const usual = defaultRecovery({ ...position, stage: phase });
  if (position.stage === "fatal")
    return { ...usual, can_resume: false, warnings: [position.reason ?? "The run failed"] };
  return position.stage === "done" ? { ...usual, can_resume: false, warnings: ["The run is done"] } : usual;
}

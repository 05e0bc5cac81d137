import { positionShape } from "@holdfast/core/checkpoint";
import { isWaiting, stateOf } from "@holdfast/core/graph-state";
import { type Json, type JsonObject, isJsonObject } from "@holdfast/core/json";
import { NO_ATTEMPT, type Position } from "@holdfast/core/position";
import { defaultRecovery, encodeGraph } from "@holdfast/formats/crunch-document";
import { field } from "@holdfast/formats/document";
import type { ExternalCheckpoint } from "@holdfast/formats/format";
import { HoldfastError } from "@holdfast/platform/error";
import { capturedEntries } from "./knowledge.ts";
import { awaitingMessages, pendingMessages } from "./message-log.ts";
import { parsePhase, stateLabel } from "./phases.ts";
import { type AgentOutput, type CrunchState, parseCrunchEvent, parseCrunchState, reduceCrunch } from "./state.ts";
import { type Team, memberCounts } from "./team.ts";

/** A checkpoint of a crunch run that Holdfast itself carries: its values are crunch's own state. */
export interface CrunchRun {
  readonly state: CrunchState;
  /** Where the issue stands. A run that has ended stands where it ended. */
  readonly phase: string;
  /** As it stands; without the graph that an earlier phase left behind. */
  readonly position: Position;
}

/** null: the checkpoint is of another workflow, or came from a document that has no such state. */
export function readCrunchRun({ workflow, planes }: Pick<ExternalCheckpoint, "workflow" | "planes">): CrunchRun | null {
  if (workflow !== "crunch" || !Object.hasOwn(planes.context.values, "messages")) return null;
  const { position } = planes;
  const state = readState(planes.context.values, position.visit.unreduced ?? []);
  if (state === null) return null;
  const phase = parsePhase(position.stage) ?? state.phases.at(-1)?.phase ?? position.stage;
  const left = position.visit.number > 0 && position.visit.graph !== true;
  return { state, phase, position: left ? { ...position, graph: null } : position };
}

/** With what was recorded and stands in the values only once the workflow has the run in its hands again. */
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
 * The member that crunch's own readers pass over: all that a run needs to go on, in Holdfast's words. Crunch's members tell the same as far as
 * they go; where somebody changed one of those, theirs counts (see decode).
 */
function encodeHoldfastMember({ state, position }: CrunchRun): JsonObject {
  const { visit: _steps, ...rest } = position;
  // Both are JSON: an interface without index signature is not Json to the compiler.
  return { version: 1, position: rest as object as JsonObject, values: state as object as JsonObject };
}

export interface HoldfastMember {
  readonly position: Position;
  readonly values: JsonObject;
}

/** "damaged": there is one, and it is not what we write. */
export function readKept(document: JsonObject): HoldfastMember | "damaged" | null {
  const kept = field(document, HOLDFAST_MEMBER);
  if (kept === undefined || kept === null) return null;
  if (!isJsonObject(kept) || kept["version"] !== 1) return "damaged";
  const { values } = kept;
  const position = isJsonObject(kept["position"]) ? { ...kept["position"], visit: { ...NO_ATTEMPT } } : null;
  if (!isJsonObject(values) || position === null || positionShape(position) !== null) return "damaged";
  // It fits the shape.
  return readState(values, []) === null ? "damaged" : { position: position as object as Position, values };
}

/** Where `encodeHoldfastMember` stands in a document. */
export const HOLDFAST_MEMBER = "holdfast";

/** What crunch's own members say of a run that Holdfast carries: all of it derived, so that none can be behind. */
export function documentMembers(live: CrunchRun): JsonObject {
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
  const stays = state.phases.filter((stay) => stay.phase === phase);
  const newest = state.phases.at(-1);
  const here = newest?.phase === phase ? newest : null;
  const known = parsePhase(phase);
  return {
    current_phase: phase,
    current_state_label: known === null ? null : stateLabel(known),
    // Come to by a transition and not begun yet: it has no time, and is the next attempt.
    ...(here === null ? {} : { phase_started_at: here.startedAt }),
    phase_attempt: here === null ? stays.length + 1 : here.attempt,
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

/** What waits in the graph is somebody's to do, although nobody has begun it; in a further round of a phase, once more. */
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

/** By agent and action. The same action on several nodes is told for each, and the same node of several phases too. */
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
    return { ...usual, can_resume: false, warnings: [position.reason ?? "The run was given up"] };
  return position.stage === "done" ? { ...usual, can_resume: false, warnings: ["The run is done"] } : usual;
}

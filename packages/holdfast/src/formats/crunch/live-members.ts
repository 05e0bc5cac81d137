import type { AgentOutput } from "../../core/crunch/crunch-state.ts";
import { capturedEntries } from "../../core/crunch/knowledge-book.ts";
import { stateLabel } from "../../core/crunch/labels.ts";
import { awaitingMessages, pendingMessages } from "../../core/crunch/message-book.ts";
import { parsePhase } from "../../core/crunch/phase.ts";
import { memberCounts } from "../../core/crunch/team.ts";
import type { Team } from "../../core/crunch/team.ts";
import { isWaiting, stateOf } from "../../core/graph/graph-state.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { encodeGraph } from "./crunch-graph.ts";
import { KEPT, keptMember } from "./live-crunch.ts";
import type { LiveCrunch } from "./live-crunch.ts";
import { usualRecovery } from "./usual-recovery.ts";

/** What crunch's own members say of a run that Holdfast carries: all of it derived, so that none can be behind. */
export function liveMembers(live: LiveCrunch): JsonObject {
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
    [KEPT]: keptMember(live),
  };
}

function stateMember({ state, phase }: LiveCrunch): JsonObject {
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

function teamMember(live: LiveCrunch): JsonObject {
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
function withPlanned({ state, position, phase }: LiveCrunch): Team | null {
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

function recoveryMember({ position, phase }: LiveCrunch): JsonObject {
  const usual = usualRecovery({ ...position, stage: phase });
  if (position.stage === "fatal")
    return { ...usual, can_resume: false, warnings: [position.reason ?? "The run was given up"] };
  return position.stage === "done" ? { ...usual, can_resume: false, warnings: ["The run is done"] } : usual;
}

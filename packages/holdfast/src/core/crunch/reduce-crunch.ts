import { canonicalJson } from "../values/canonical-json.ts";
import type { Conflict } from "./conflict.ts";
import type { CrunchEvent } from "./crunch-event.ts";
import type { CrunchState } from "./crunch-state.ts";
import { captureKnowledge, injectKnowledge, planCapture } from "./knowledge-book.ts";
import type { BookChange } from "./knowledge-book.ts";
import { deliverMessage, findMessage, sendMessage, withdrawMessage } from "./message-book.ts";

/**
 * One event further; pure and total. What does not fit changes nothing but `refused`, where it can be seen. What says again
 * what is so already changes nothing at all.
 */
export function reduceCrunch(state: CrunchState, event: CrunchEvent): CrunchState {
  switch (event.kind) {
    case "settings_read":
      return { ...state, settings: event.settings };
    case "issue_read":
      return { ...state, issue: event.issue };
    case "branch_made":
      return { ...state, branch: event.branch, base: event.base };
    case "pull_request_opened":
      return { ...state, pullRequest: event.pullRequest };
    case "phase_entered":
      return enter(state, event);
    case "team_composed":
      return { ...state, team: { ...event.team, tasks: { ...state.team?.tasks, ...event.team.tasks } } };
    case "task_moved":
      return moveTask(state, event);
    case "output_delivered":
      return deliverOutput(state, event);
    case "message_sent":
      return { ...state, messages: sendMessage(state.messages, event.message) };
    case "message_delivered":
      return onMessage(state, event, (messages) => deliverMessage(messages, event.id));
    case "message_withdrawn":
      return onMessage(state, event, (messages) => withdrawMessage(messages, event));
    case "conflict_detected":
      return detect(state, event);
    case "positions_taken":
      return takePositions(state, event);
    case "conflict_escalated":
      return onConflict(state, event, (conflict) =>
        conflict.resolution === null ? { ...conflict, escalation: conflict.escalation ?? event.escalation } : null,
      );
    case "conflict_resolved":
      return onConflict(state, event, (conflict) =>
        conflict.resolution === null ? { ...conflict, resolution: event.resolution } : null,
      );
    case "knowledge_injected":
      return onBook(state, event, { subject: event.phase, change: injectKnowledge(state.knowledge, event) });
    case "capture_planned":
      return onBook(state, event, {
        subject: event.capture.name,
        change: planCapture(state.knowledge, event.capture),
      });
    case "knowledge_captured":
      return onBook(state, event, { subject: event.name, change: captureKnowledge(state.knowledge, event) });
  }
}

type Event<K extends CrunchEvent["kind"]> = Extract<CrunchEvent, { readonly kind: K }>;

/** The same stay written down twice is one stay; the same phase at another time is a further attempt. */
function enter(state: CrunchState, event: Event<"phase_entered">): CrunchState {
  const { phase, at } = event;
  if (state.phases.some((stay) => stay.phase === phase && stay.startedAt === at)) return state;
  const attempt = state.phases.filter((stay) => stay.phase === phase).length + 1;
  return { ...state, phases: [...state.phases, { phase, startedAt: at, attempt }] };
}

function moveTask(state: CrunchState, event: Event<"task_moved">): CrunchState {
  const { task, agent, phase, status } = event;
  if (state.team === null) return refuse(state, event, { subject: task, why: "there is no team" });
  const tasks = { ...state.team.tasks, [task]: { agent, phase, status } };
  return { ...state, team: { ...state.team, tasks } };
}

/** An agent that does the same node again delivers anew; the newest stands. */
function deliverOutput(state: CrunchState, event: Event<"output_delivered">): CrunchState {
  const { output } = event;
  const at = state.outputs.findIndex(
    (one) =>
      one.agent === output.agent &&
      one.action === output.action &&
      one.phase === output.phase &&
      one.node === output.node,
  );
  return { ...state, outputs: at === -1 ? [...state.outputs, output] : state.outputs.with(at, output) };
}

function onMessage(
  state: CrunchState,
  event: Event<"message_delivered" | "message_withdrawn">,
  change: (messages: CrunchState["messages"]) => CrunchState["messages"],
): CrunchState {
  if (findMessage(state.messages, event.id) === undefined) {
    return refuse(state, event, { subject: event.id, why: "there is no such message" });
  }
  return { ...state, messages: change(state.messages) };
}

function detect(state: CrunchState, event: Event<"conflict_detected">): CrunchState {
  const known = state.conflicts.find((one) => one.id === event.conflict.id);
  if (known === undefined) return { ...state, conflicts: [...state.conflicts, event.conflict] };
  const subject = event.conflict.id;
  const same = canonicalJson(known.recommendations) === canonicalJson(event.conflict.recommendations);
  return same ? state : refuse(state, event, { subject, why: "another conflict has this id" });
}

/** Rounds come one after the other, and an agent speaks once in each. */
function takePositions(state: CrunchState, event: Event<"positions_taken">): CrunchState {
  return onConflict(state, event, (conflict) => {
    const speakers = event.positions.map((position) => position.agent);
    const next = conflict.rounds.length + 1 === event.round;
    if (conflict.resolution !== null || !next || new Set(speakers).size !== speakers.length) return null;
    if (!speakers.every((agent) => conflict.participants.includes(agent))) return null;
    return { ...conflict, rounds: [...conflict.rounds, event.positions] };
  });
}

function onConflict(
  state: CrunchState,
  event: Event<"positions_taken" | "conflict_escalated" | "conflict_resolved">,
  change: (conflict: Conflict) => Conflict | null,
): CrunchState {
  const subject = event.conflict;
  const conflict = state.conflicts.find((one) => one.id === subject);
  if (conflict === undefined) return refuse(state, event, { subject, why: "there is no such conflict" });
  const changed = change(conflict);
  if (changed !== null) {
    return { ...state, conflicts: state.conflicts.map((one) => (one.id === subject ? changed : one)) };
  }
  const resolved = conflict.resolution === null ? "" : "; it is resolved";
  return refuse(state, event, { subject, why: `it stands after round ${conflict.rounds.length}${resolved}` });
}

function onBook(
  state: CrunchState,
  event: CrunchEvent,
  params: { readonly subject: string; readonly change: BookChange },
): CrunchState {
  const { subject, change } = params;
  switch (change.kind) {
    case "changed":
      return { ...state, knowledge: change.book };
    case "same":
      return state;
    case "refused":
      return refuse(state, event, { subject, why: change.why });
  }
}

function refuse(
  state: CrunchState,
  event: CrunchEvent,
  params: { readonly subject: string; readonly why: string },
): CrunchState {
  return { ...state, refused: [...state.refused, { event: event.kind, ...params }] };
}

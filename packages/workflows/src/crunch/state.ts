// The state of a crunch run, its events and the reducer.

import { type IssueSnapshot, issueShape } from "@holdfast/core/checkpoint";
import {
  type Json,
  type JsonObject,
  type Shape,
  type TypeOf,
  count,
  flag,
  list,
  nullable,
  object,
  optional,
  parseShape,
  text,
  variants,
} from "@holdfast/core/json";
import { canonicalJson } from "@holdfast/core/values";
import {
  CAPTURE_SHAPE,
  KNOWLEDGE_ENTRY_SHAPE,
  KNOWLEDGE_SHAPE,
  type KnowledgeChange,
  captureKnowledge,
  emptyKnowledge,
  injectKnowledge,
  planCapture,
} from "./knowledge.ts";
import {
  MESSAGES_SHAPE,
  deliverMessage,
  emptyMessages,
  findMessage,
  sendMessage,
  withdrawMessage,
} from "./message-log.ts";
import {
  CONFLICT_SHAPE,
  type Conflict,
  ESCALATION_SHAPE,
  MESSAGE_SHAPE,
  POSITION_SHAPE,
  RESOLUTION_SHAPE,
} from "./messages.ts";
import { TEMPLATES_SHAPE, type Templates } from "../prompts.ts";
import { PHASES, type Phase } from "./phases.ts";
import { SETTINGS_SHAPE } from "./settings.ts";
import { PHASE_SHAPE, TEAM_SHAPE, TEAM_TASK } from "./team.ts";

export type CrunchIssue = Pick<
  IssueSnapshot,
  "number" | "title" | "body" | "labels" | "assignees" | "state" | "updatedAt" | "comments"
>;
export const initialCrunchState: CrunchState = {
  issue: null,
  base: null,
  branch: null,
  settings: null,
  phases: [],
  team: null,
  outputs: [],
  messages: emptyMessages,
  conflicts: [],
  knowledge: emptyKnowledge,
  pullRequest: null,
  refused: [],
};

/** Throws STORE_CORRUPT with the path of the invalid field. */
export function parseCrunchState(values: JsonObject): CrunchState {
  return parseShape({ shape: STATE, value: values, what: "The state of a crunch run" });
}

const ISSUE_SHAPE: Shape<CrunchIssue> = issueShape;
const BASE_SHAPE = object({ branch: text, commit: text });
export type CrunchBase = TypeOf<typeof BASE_SHAPE>;
const PULL_REQUEST_SHAPE = object({ number: count, url: text });

const OUTPUT_SHAPE: Shape<AgentOutput> = object<AgentOutput>({
  agent: text,
  action: text,
  node: text,
  phase: PHASE_SHAPE,
  completedAt: text,
  summary: text,
  location: nullable(text),
  delivered: optional(text),
});
/** An agent's output: a summary and the location of the whole. */
export type AgentOutput = {
  readonly agent: string;
  readonly action: string;
  readonly node: string;
  readonly phase: Phase;
  readonly completedAt: string;
  readonly summary: string;
  /** A path in the repository; null if there is only the summary. */
  readonly location: string | null;
  /** The requested output (such as a specification), as written in the answer. Absent: there is only the summary. */
  readonly delivered?: string;
};

const STATE = object({
  issue: nullable(ISSUE_SHAPE),
  base: nullable(BASE_SHAPE),
  branch: nullable(text),
  settings: nullable(SETTINGS_SHAPE),
  /** Every phase attempt, oldest first. */
  phases: list(object({ phase: PHASE_SHAPE, startedAt: text, attempt: count })),
  team: nullable(TEAM_SHAPE),
  outputs: list(OUTPUT_SHAPE),
  messages: MESSAGES_SHAPE,
  conflicts: list(CONFLICT_SHAPE),
  knowledge: KNOWLEDGE_SHAPE,
  pullRequest: nullable(PULL_REQUEST_SHAPE),
  /** Events that did not fit the state. They changed nothing else, and these records make them visible. */
  refused: list(object({ event: text, subject: text, why: text })),
  adopted: optional(flag),
  templates: optional(TEMPLATES_SHAPE),
});
/** The values of a crunch run: everything that is not in its position (stage, counters, graph, budget). */
export type CrunchState = Omit<TypeOf<typeof STATE>, "adopted" | "templates"> & {
  /** The run continues a document on its branch, and has not compared that branch with the remote yet. */
  readonly adopted?: boolean;
  /** The prompt templates in force, fixed with the settings. Absent: the built-in ones. */
  readonly templates?: Templates;
};

/**
 * Applies one event; pure and total. An event that does not fit changes only `refused`, where it is visible. A repeated
 * event changes nothing.
 */
export function reduceCrunch(state: CrunchState, event: CrunchEvent): CrunchState {
  switch (event.kind) {
    case "settings_read":
      return { ...state, settings: event.settings };
    case "templates_read":
      return { ...state, templates: event.templates };
    case "issue_read":
      return { ...state, issue: event.issue };
    case "branch_made":
      return { ...state, branch: event.branch, base: event.base };
    case "branch_followed":
      return { ...state, adopted: false };
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
      return changeKnowledge(state, event, { subject: event.phase, change: injectKnowledge(state.knowledge, event) });
    case "capture_planned":
      return changeKnowledge(state, event, {
        subject: event.capture.name,
        change: planCapture(state.knowledge, event.capture),
      });
    case "knowledge_captured":
      return changeKnowledge(state, event, { subject: event.name, change: captureKnowledge(state.knowledge, event) });
  }
}

type Event<K extends CrunchEvent["kind"]> = Extract<CrunchEvent, { readonly kind: K }>;

/** The same phase with the same start time is one attempt; with another time it is a further attempt. */
function enter(state: CrunchState, event: Event<"phase_entered">): CrunchState {
  const { phase, at } = event;
  if (state.phases.some((attempt) => attempt.phase === phase && attempt.startedAt === at)) return state;
  const attempt = state.phases.filter((attempt) => attempt.phase === phase).length + 1;
  return { ...state, phases: [...state.phases, { phase, startedAt: at, attempt }] };
}

function moveTask(state: CrunchState, event: Event<"task_moved">): CrunchState {
  const { task, agent, phase, status } = event;
  if (state.team === null) return refuse(state, event, { subject: task, why: "there is no team" });
  const tasks = { ...state.team.tasks, [task]: { agent, phase, status } };
  return { ...state, team: { ...state.team, tasks } };
}

/** A repeated node replaces its earlier output. An imported output has no node until a graph has one for it. */
function deliverOutput(state: CrunchState, event: Event<"output_delivered">): CrunchState {
  const { output } = event;
  const at = state.outputs.findIndex(
    (one) =>
      one.agent === output.agent &&
      one.action === output.action &&
      one.phase === output.phase &&
      (one.node === output.node || one.node === ""),
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

/** Rounds follow in order, and an agent has one position in each. */
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

function changeKnowledge(
  state: CrunchState,
  event: CrunchEvent,
  params: { readonly subject: string; readonly change: KnowledgeChange },
): CrunchState {
  const { subject, change } = params;
  switch (change.kind) {
    case "changed":
      return { ...state, knowledge: change.log };
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

/** Reads an event from the journal. Throws STORE_CORRUPT with the path of the invalid field. */
export function parseCrunchEvent(value: Json): CrunchEvent {
  return parseShape({ shape: EVENT, value, what: "An event of a crunch run" });
}

const EVENT = variants("kind", {
  settings_read: object({ settings: SETTINGS_SHAPE }),
  templates_read: object({ templates: TEMPLATES_SHAPE }),
  issue_read: object({ issue: ISSUE_SHAPE }),
  branch_made: object({ branch: text, base: BASE_SHAPE }),
  branch_followed: object({}),
  phase_entered: object({ phase: PHASE_SHAPE, at: text }),
  team_composed: object({ team: TEAM_SHAPE }),
  task_moved: object({ ...TEAM_TASK, task: text }),
  output_delivered: object({ output: OUTPUT_SHAPE }),
  /** Also records answers, which reference the message they answer. */
  message_sent: object({ message: MESSAGE_SHAPE }),
  message_delivered: object({ id: text }),
  message_withdrawn: object({ id: text, why: text }),
  conflict_detected: object({ conflict: CONFLICT_SHAPE }),
  /** Rounds start at 1. */
  positions_taken: object({ conflict: text, round: count, positions: list(POSITION_SHAPE) }),
  conflict_escalated: object({ conflict: text, escalation: ESCALATION_SHAPE }),
  conflict_resolved: object({ conflict: text, resolution: RESOLUTION_SHAPE }),
  knowledge_injected: object({ phase: PHASE_SHAPE, entries: list(KNOWLEDGE_ENTRY_SHAPE), at: text }),
  capture_planned: object({ capture: CAPTURE_SHAPE }),
  knowledge_captured: object({ name: text, at: text }),
  pull_request_opened: object({ pullRequest: PULL_REQUEST_SHAPE }),
});
/**
 * Every event that changes a crunch run's state within a phase. Each is JSON and is stored in the journal unchanged.
 */
export type CrunchEvent = TypeOf<typeof EVENT>;

/** Sorts by phase and node instead of arrival, so that repeated reads give the same order. */
export function sortOutputs(outputs: readonly AgentOutput[]): readonly AgentOutput[] {
  return outputs.toSorted(
    (a, b) => PHASES.indexOf(a.phase) - PHASES.indexOf(b.phase) || (a.node < b.node ? -1 : a.node > b.node ? 1 : 0),
  );
}

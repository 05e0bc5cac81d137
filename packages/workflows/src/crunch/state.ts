// The state of a crunch run, its events and the reducer. The types are aliases because TypeScript does not accept an
// interface as a JSON object.

import type { IssueSnapshot } from "@holdfast/core/checkpoint";
import {
  type Json,
  type JsonObject,
  type Shape,
  count,
  list,
  nullable,
  object,
  oneOf,
  optional,
  parseShape,
  tagged,
  text,
} from "@holdfast/core/json";
import { canonicalJson } from "@holdfast/core/values";
import {
  CAPTURE_SHAPE,
  KNOWLEDGE_ENTRY_SHAPE,
  KNOWLEDGE_SHAPE,
  type KnowledgeChange,
  type KnowledgeEntry,
  type KnowledgeLog,
  type PendingCapture,
  captureKnowledge,
  emptyKnowledge,
  injectKnowledge,
  planCapture,
} from "./knowledge.ts";
import {
  type MessageLog,
  type MessageRecord,
  type MessageStatus,
  type RefusedMessage,
  deliverMessage,
  emptyMessages,
  findMessage,
  sendMessage,
  withdrawMessage,
} from "./message-log.ts";
import {
  CONFLICT_SHAPE,
  type Conflict,
  type ConflictPosition,
  ESCALATION_SHAPE,
  type Escalation,
  MESSAGE_SHAPE,
  type Message,
  POSITION_SHAPE,
  RESOLUTION_SHAPE,
  type Resolution,
} from "./messages.ts";
import { PHASES, type Phase } from "./phases.ts";
import { type CrunchSettings, SETTINGS_SHAPE } from "./settings.ts";
import { PHASE_SHAPE, TEAM_SHAPE, TEAM_TASK_SHAPE, type TaskStatus, type Team } from "./team.ts";

export type CrunchIssue = Pick<IssueSnapshot, "number" | "title" | "body" | "labels" | "state" | "updatedAt">;
export type CrunchBase = { readonly branch: string; readonly commit: string };
type PullRequest = { readonly number: number; readonly url: string };
/** One attempt of a phase. */
type PhaseAttempt = { readonly phase: Phase; readonly startedAt: string; readonly attempt: number };

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

/** An event that did not fit the state. It changed nothing else, and this record makes it visible. */
type RejectedEvent = { readonly event: string; readonly subject: string; readonly why: string };

/** The values of a crunch run: everything that is not in its position (stage, counters, graph, budget). */
export type CrunchState = {
  readonly issue: CrunchIssue | null;
  readonly base: CrunchBase | null;
  readonly branch: string | null;
  readonly settings: CrunchSettings | null;
  /** Every phase attempt, oldest first. */
  readonly phases: readonly PhaseAttempt[];
  readonly team: Team | null;
  readonly outputs: readonly AgentOutput[];
  readonly messages: MessageLog;
  readonly conflicts: readonly Conflict[];
  readonly knowledge: KnowledgeLog;
  readonly pullRequest: PullRequest | null;
  readonly refused: readonly RejectedEvent[];
};

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

type Status<K extends MessageStatus["kind"]> = Extract<MessageStatus, { readonly kind: K }>;

const STATUS = tagged<MessageStatus, "kind">("kind", {
  pending: object<Status<"pending">>({ kind: oneOf<"pending">({ pending: true }) }),
  awaiting: object<Status<"awaiting">>({ kind: oneOf<"awaiting">({ awaiting: true }) }),
  delivered: object<Status<"delivered">>({ kind: oneOf<"delivered">({ delivered: true }) }),
  answered: object<Status<"answered">>({ kind: oneOf<"answered">({ answered: true }), by: text }),
  withdrawn: object<Status<"withdrawn">>({ kind: oneOf<"withdrawn">({ withdrawn: true }), why: text }),
});

const ISSUE_SHAPE: Shape<CrunchIssue> = object<CrunchIssue>({
  number: count,
  title: text,
  body: text,
  labels: list(text),
  state: oneOf<"open" | "closed">({ open: true, closed: true }),
  updatedAt: text,
});

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

const BASE_SHAPE: Shape<CrunchBase> = object<CrunchBase>({ branch: text, commit: text });
const PULL_REQUEST_SHAPE: Shape<PullRequest> = object<PullRequest>({ number: count, url: text });

const STATE: Shape<CrunchState> = object<CrunchState>({
  issue: nullable(ISSUE_SHAPE),
  base: nullable(BASE_SHAPE),
  branch: nullable(text),
  settings: nullable(SETTINGS_SHAPE),
  phases: list(object<PhaseAttempt>({ phase: PHASE_SHAPE, startedAt: text, attempt: count })),
  team: nullable(TEAM_SHAPE),
  outputs: list(OUTPUT_SHAPE),
  messages: object<MessageLog>({
    records: list(object<MessageRecord>({ message: MESSAGE_SHAPE, status: STATUS })),
    refused: list(object<RefusedMessage>({ message: MESSAGE_SHAPE, why: text })),
  }),
  conflicts: list(CONFLICT_SHAPE),
  knowledge: KNOWLEDGE_SHAPE,
  pullRequest: nullable(PULL_REQUEST_SHAPE),
  refused: list(object<RejectedEvent>({ event: text, subject: text, why: text })),
});

/**
 * Every event that changes a crunch run's state within a phase. Each is JSON and is stored in the journal unchanged.
 */
export type CrunchEvent =
  | { readonly kind: "settings_read"; readonly settings: CrunchSettings }
  | { readonly kind: "issue_read"; readonly issue: CrunchIssue }
  | { readonly kind: "branch_made"; readonly branch: string; readonly base: CrunchBase }
  | { readonly kind: "phase_entered"; readonly phase: Phase; readonly at: string }
  | { readonly kind: "team_composed"; readonly team: Team }
  | {
      readonly kind: "task_moved";
      readonly task: string;
      readonly agent: string;
      readonly phase: Phase;
      readonly status: TaskStatus;
    }
  | { readonly kind: "output_delivered"; readonly output: AgentOutput }
  /** Also records answers, which reference the message they answer. */
  | { readonly kind: "message_sent"; readonly message: Message }
  | { readonly kind: "message_delivered"; readonly id: string }
  | { readonly kind: "message_withdrawn"; readonly id: string; readonly why: string }
  | { readonly kind: "conflict_detected"; readonly conflict: Conflict }
  | {
      readonly kind: "positions_taken";
      readonly conflict: string;
      /** Starts at 1. */
      readonly round: number;
      readonly positions: readonly ConflictPosition[];
    }
  | { readonly kind: "conflict_escalated"; readonly conflict: string; readonly escalation: Escalation }
  | { readonly kind: "conflict_resolved"; readonly conflict: string; readonly resolution: Resolution }
  | {
      readonly kind: "knowledge_injected";
      readonly phase: Phase;
      readonly entries: readonly KnowledgeEntry[];
      readonly at: string;
    }
  | { readonly kind: "capture_planned"; readonly capture: PendingCapture }
  | { readonly kind: "knowledge_captured"; readonly name: string; readonly at: string }
  | { readonly kind: "pull_request_opened"; readonly pullRequest: PullRequest };

/**
 * Applies one event; pure and total. An event that does not fit changes only `refused`, where it is visible. A repeated
 * event changes nothing.
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

/** A repeated node replaces its earlier output. */
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

type Of<K extends CrunchEvent["kind"]> = Extract<CrunchEvent, { readonly kind: K }>;

/** `tagged` has already checked the kind. */
const kind: Shape<never> = () => null;
const task: Shape<Of<"task_moved">> = (value) => TEAM_TASK_SHAPE(value) ?? named(value);
const named = object<{ readonly task: string }>({ task: text });

const EVENT: Shape<CrunchEvent> = tagged<CrunchEvent, "kind">("kind", {
  settings_read: object<Of<"settings_read">>({ kind, settings: SETTINGS_SHAPE }),
  issue_read: object<Of<"issue_read">>({ kind, issue: ISSUE_SHAPE }),
  branch_made: object<Of<"branch_made">>({ kind, branch: text, base: BASE_SHAPE }),
  phase_entered: object<Of<"phase_entered">>({ kind, phase: PHASE_SHAPE, at: text }),
  team_composed: object<Of<"team_composed">>({ kind, team: TEAM_SHAPE }),
  task_moved: task,
  output_delivered: object<Of<"output_delivered">>({ kind, output: OUTPUT_SHAPE }),
  message_sent: object<Of<"message_sent">>({ kind, message: MESSAGE_SHAPE }),
  message_delivered: object<Of<"message_delivered">>({ kind, id: text }),
  message_withdrawn: object<Of<"message_withdrawn">>({ kind, id: text, why: text }),
  conflict_detected: object<Of<"conflict_detected">>({ kind, conflict: CONFLICT_SHAPE }),
  positions_taken: object<Of<"positions_taken">>({
    kind,
    conflict: text,
    round: count,
    positions: list(POSITION_SHAPE),
  }),
  conflict_escalated: object<Of<"conflict_escalated">>({ kind, conflict: text, escalation: ESCALATION_SHAPE }),
  conflict_resolved: object<Of<"conflict_resolved">>({ kind, conflict: text, resolution: RESOLUTION_SHAPE }),
  knowledge_injected: object<Of<"knowledge_injected">>({
    kind,
    phase: PHASE_SHAPE,
    entries: list(KNOWLEDGE_ENTRY_SHAPE),
    at: text,
  }),
  capture_planned: object<Of<"capture_planned">>({ kind, capture: CAPTURE_SHAPE }),
  knowledge_captured: object<Of<"knowledge_captured">>({ kind, name: text, at: text }),
  pull_request_opened: object<Of<"pull_request_opened">>({ kind, pullRequest: PULL_REQUEST_SHAPE }),
});

/** Sorts by phase and node instead of arrival, so that repeated reads give the same order. */
export function sortOutputs(outputs: readonly AgentOutput[]): readonly AgentOutput[] {
  return outputs.toSorted(
    (a, b) => PHASES.indexOf(a.phase) - PHASES.indexOf(b.phase) || (a.node < b.node ? -1 : a.node > b.node ? 1 : 0),
  );
}

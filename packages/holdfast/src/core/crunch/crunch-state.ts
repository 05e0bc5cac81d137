import type { IssueSnapshot } from "../checkpoint/checkpoint.ts";
import type { JsonObject } from "../json.ts";
import { count, list, nullable, object, oneOf, optional, parseShape, tagged, text } from "../shape.ts";
import type { Shape } from "../shape.ts";
import { CONFLICT_SHAPE } from "./conflict-shape.ts";
import type { Conflict } from "./conflict.ts";
import { KNOWLEDGE_SHAPE } from "./knowledge-shape.ts";
import { emptyKnowledge } from "./knowledge.ts";
import type { KnowledgeBook } from "./knowledge.ts";
import { emptyMessages } from "./message-book.ts";
import type { MessageBook, MessageRecord, MessageStatus, RefusedMessage } from "./message-book.ts";
import { MESSAGE_SHAPE } from "./message-shape.ts";
import type { Phase } from "./phase.ts";
import { SETTINGS_SHAPE } from "./settings.ts";
import type { CrunchSettings } from "./settings.ts";
import { PHASE_SHAPE, TEAM_SHAPE } from "./team.ts";
import type { Team } from "./team.ts";

// Type aliases, not interfaces: only those count as JSON objects to the compiler.

export type CrunchIssue = Pick<IssueSnapshot, "number" | "title" | "body" | "labels" | "state" | "updatedAt">;
export type CrunchBase = { readonly branch: string; readonly commit: string };
export type PullRequest = { readonly number: number; readonly url: string };
/** One stay in a phase; the newest is last. */
export type PhaseStay = { readonly phase: Phase; readonly startedAt: string; readonly attempt: number };

/** What an agent delivered: in short, and where the whole of it is. */
export type AgentOutput = {
  readonly agent: string;
  readonly action: string;
  readonly node: string;
  readonly phase: Phase;
  readonly completedAt: string;
  readonly summary: string;
  /** A path in the repository, or null when the summary is all there is. */
  readonly location: string | null;
  /** What it was to deliver by name (a specification), written out in its answer. Absent: the summary is all. */
  readonly delivered?: string;
};

/** An event that did not fit the state it met. It changed nothing, and it is not hidden. */
export type Refusal = { readonly event: string; readonly subject: string; readonly why: string };

/** The values of a crunch run: all that is not in its position (stage, counters, graph, budget). */
export type CrunchState = {
  readonly issue: CrunchIssue | null;
  readonly base: CrunchBase | null;
  readonly branch: string | null;
  readonly settings: CrunchSettings | null;
  /** Every stay, oldest first. */
  readonly phases: readonly PhaseStay[];
  readonly team: Team | null;
  readonly outputs: readonly AgentOutput[];
  readonly messages: MessageBook;
  readonly conflicts: readonly Conflict[];
  readonly knowledge: KnowledgeBook;
  readonly pullRequest: PullRequest | null;
  readonly refused: readonly Refusal[];
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

/** STORE_CORRUPT with the path of what is wrong. */
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

export const ISSUE_SHAPE: Shape<CrunchIssue> = object<CrunchIssue>({
  number: count,
  title: text,
  body: text,
  labels: list(text),
  state: oneOf<"open" | "closed">({ open: true, closed: true }),
  updatedAt: text,
});

export const OUTPUT_SHAPE: Shape<AgentOutput> = object<AgentOutput>({
  agent: text,
  action: text,
  node: text,
  phase: PHASE_SHAPE,
  completedAt: text,
  summary: text,
  location: nullable(text),
  delivered: optional(text),
});

export const BASE_SHAPE: Shape<CrunchBase> = object<CrunchBase>({ branch: text, commit: text });
export const PULL_REQUEST_SHAPE: Shape<PullRequest> = object<PullRequest>({ number: count, url: text });

const STATE: Shape<CrunchState> = object<CrunchState>({
  issue: nullable(ISSUE_SHAPE),
  base: nullable(BASE_SHAPE),
  branch: nullable(text),
  settings: nullable(SETTINGS_SHAPE),
  phases: list(object<PhaseStay>({ phase: PHASE_SHAPE, startedAt: text, attempt: count })),
  team: nullable(TEAM_SHAPE),
  outputs: list(OUTPUT_SHAPE),
  messages: object<MessageBook>({
    records: list(object<MessageRecord>({ message: MESSAGE_SHAPE, status: STATUS })),
    refused: list(object<RefusedMessage>({ message: MESSAGE_SHAPE, why: text })),
  }),
  conflicts: list(CONFLICT_SHAPE),
  knowledge: KNOWLEDGE_SHAPE,
  pullRequest: nullable(PULL_REQUEST_SHAPE),
  refused: list(object<Refusal>({ event: text, subject: text, why: text })),
});

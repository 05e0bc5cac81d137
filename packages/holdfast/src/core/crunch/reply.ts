import type { Json } from "../json.ts";
import { objectsIn } from "../objects-in.ts";
import { KNOWLEDGE_TYPES } from "./knowledge.ts";
import type { KnowledgeType } from "./knowledge.ts";
import type { Finding, ReplyStatus } from "./message.ts";
import type { Compromise, ConflictPosition, VetoClaim } from "./conflict.ts";
import {
  describeField,
  lines,
  listOf,
  MAX_TEXT,
  maybe,
  maybeWord,
  maybeWords,
  members,
  oneWord,
  percent,
  share,
  words,
  yesOrNo,
} from "./reply-field.ts";

export type ReplyRecommendation = {
  readonly scope: string;
  readonly choice: string;
  readonly rationale: string;
  readonly confidence: number;
  readonly actionable: boolean;
};

export type ReplyKnowledge = {
  readonly type: KnowledgeType;
  readonly content: string;
  readonly tags: readonly string[];
};

/** A question that only a person can answer. No options: any answer will do. */
export type ReplyEscalation = { readonly reason: string; readonly options: readonly string[] };

export const REPLY_BROADCASTS = ["CONTEXT_UPDATE", "CHECKPOINT", "ABORT"] as const;
/** What everybody is told. CHECKPOINT has a checkpoint taken, ABORT ends the phase. */
export type ReplyBroadcast = { readonly event: (typeof REPLY_BROADCASTS)[number]; readonly message: string };

/** Work that the agent found and somebody else should do. */
export type FollowUp = { readonly agent: string; readonly action: string; readonly task: string };

export type AgentReply = {
  readonly status: ReplyStatus;
  readonly summary: string;
  /** Paths of what it wrote for others to read. */
  readonly outputs: readonly string[];
  readonly filesModified: readonly string[];
  readonly filesCreated: readonly string[];
  readonly findings: readonly Finding[];
  readonly recommendations: readonly ReplyRecommendation[];
  readonly handoff: { readonly to: string; readonly reason: string } | null;
  readonly followUps: readonly FollowUp[];
  readonly escalate: ReplyEscalation | null;
  readonly broadcasts: readonly ReplyBroadcast[];
  readonly knowledge: readonly ReplyKnowledge[];
};

const STATUSES = ["SUCCESS", "PARTIAL", "BLOCKED", "FAILED"] as const;
const SEVERITIES = ["CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO"] as const;

const REPLY = members<AgentReply>({
  status: oneWord(STATUSES, "PARTIAL"),
  summary: words("what you did and what came out, in a few sentences"),
  outputs: lines("path of a file that you wrote for others to read"),
  filesModified: lines("path of a file that you changed"),
  filesCreated: lines("path of a file that you made"),
  findings: listOf(
    members<Finding>({
      id: words("F-001"),
      severity: oneWord(SEVERITIES, "INFO"),
      category: words("security | quality | performance | style"),
      title: words("in one line"),
      description: words("what is wrong and why"),
      location: words("file:line"),
      recommendation: words("what to do about it"),
      confidence: percent("how sure you are", 50),
    }),
    (finding) => finding.title !== "" || finding.description !== "",
  ),
  recommendations: listOf(
    members<ReplyRecommendation>({
      scope: words("what it is about: a file, a component, a decision; others use the same words for the same thing"),
      choice: words("what should be done, in one line"),
      rationale: words("why"),
      confidence: percent("how sure you are", 50),
      actionable: yesOrNo("can it be done as it stands?", true),
    }),
    (recommendation) => recommendation.scope !== "" && recommendation.choice !== "",
  ),
  handoff: maybe(
    members<NonNullable<AgentReply["handoff"]>>({
      to: words("agent who should do it instead of you; leave this member out otherwise"),
      reason: words("why"),
    }),
    (handoff) => handoff.to !== "",
  ),
  followUps: listOf(
    members<FollowUp>({
      agent: words("agent who should do further work"),
      action: words("implement | review_code | investigate | document"),
      task: words("what is to be done"),
    }),
    (followUp) => followUp.agent !== "" && followUp.task !== "",
  ),
  escalate: maybe(
    members<ReplyEscalation>({
      reason: words("what only a person can decide; leave this member out otherwise"),
      options: lines("answer that the person can give"),
    }),
    (escalate) => escalate.reason !== "",
  ),
  broadcasts: listOf(
    members<ReplyBroadcast>({
      event: oneWord(REPLY_BROADCASTS, "CONTEXT_UPDATE"),
      message: words("what everybody must know"),
    }),
    (broadcast) => broadcast.message !== "",
  ),
  knowledge: listOf(
    members<ReplyKnowledge>({
      type: oneWord(KNOWLEDGE_TYPES, "pattern"),
      content: words("what later work should know"),
      tags: lines("word that finds it again"),
    }),
    (knowledge) => knowledge.content !== "",
  ),
});

/** What a prompt says about the answer; made of the same table that reads it. */
export const REPLY_FORM: string = describeField(REPLY);

export type ParsedReply = AgentReply & {
  /** false: nothing in the answer could be read, and the summary is its text. */
  readonly readable: boolean;
};

/**
 * Reads what an agent answered: every JSON object in it, alone, fenced or inside prose. The last one with a status counts, since an agent
 * may repeat the form before it fills it in; without any, the answer is PARTIAL and its own text is the summary.
 */
export function parseReply(text: string): ParsedReply {
  const objects = objectsIn(text).toReversed();
  const filled = objects.find((object) => hasStatus(object));
  if (filled !== undefined) {
    const reply = REPLY.read(filled);
    return { ...reply, summary: reply.summary === "" ? shortened(text) : reply.summary, readable: true };
  }
  const nothing = REPLY.read(null);
  return { ...nothing, summary: shortened(text), readable: false };
}

function hasStatus(object: Json): boolean {
  // Read with a default, so two defaults tell whether there was one.
  const status = members<{ readonly status: ReplyStatus | null }>({ status: maybeWord(STATUSES) });
  return status.read(object).status !== null;
}

/** The end of a long answer: agents conclude there. */
function shortened(text: string): string {
  return text.trim().slice(-MAX_TEXT).toWellFormed();
}

type PositionReply = Omit<ConflictPosition, "agent">;

const POSITION = members<PositionReply>({
  choice: words("what should be done, in one line; in the words of the choice when it is one of those given"),
  rationale: words("why"),
  evidence: lines("what proves it: a place in the code, a measurement, a document"),
  confidence: percent("how sure you are", 50),
  relevance: share("how much the matter belongs to what you know", 0.5),
  compromise: members<Compromise>({
    acceptable: yesOrNo("could you live with another choice?", false),
    conditions: lines("condition under which you could"),
    hybrid: maybeWords("the choice that you could live with, in one line"),
  }),
  veto: maybe(
    members<VetoClaim>({
      severity: oneWord(["CRITICAL", "HIGH"], "HIGH"),
      target: words("the choice that must not be taken; leave this member out when none is that dangerous"),
      reason: words("what would happen"),
    }),
    (veto) => veto.target !== "" && veto.reason !== "",
  ),
  escalate: maybeWord(["no_precedent", "business_impact", "explicit_request"]),
});

export const POSITION_FORM: string = describeField(POSITION);

/** What an agent says in a debate; null when it names no choice. Then it stands where it stood before. */
export function parsePosition(text: string, agent: string): ConflictPosition | null {
  for (const object of objectsIn(text).toReversed()) {
    const position = POSITION.read(object);
    if (position.choice !== "") return { agent, ...position };
  }
  return null;
}

import { type Json, type JsonObject, isJsonArray, isJsonObject, objectsIn } from "@holdfast/core/json";
import { KNOWLEDGE_TYPES, type KnowledgeType } from "./knowledge.ts";
import type { Compromise, ConflictPosition, Finding, ReplyStatus, VetoClaim } from "./messages.ts";

/**
 * One thing that an agent is asked for: how it is described to the agent, and how its answer is read. Both in one value, so that what is
 * asked and what is understood cannot differ. Reading never fails: agents write "85%", 0.85 and "85" for the same.
 */
interface Field<T> {
  readonly described: Described;
  readonly read: (value: Json | undefined) => T;
}

/** What stands in the form: a text in quotes, bare (a number), one of a list, or members. */
type Described =
  | { readonly kind: "text"; readonly about: string }
  | { readonly kind: "bare"; readonly about: string }
  | { readonly kind: "list"; readonly of: Described }
  | { readonly kind: "members"; readonly members: readonly (readonly [string, Described])[] };

/** Texts are cut: what an agent writes goes into prompts and checkpoints again. */
const MAX_TEXT = 4_000;
const MAX_ITEMS = 100;

function words(about: string): Field<string> {
  return { described: { kind: "text", about }, read: (value) => plainText(value) };
}

/** null when it was left out or left empty. */
function maybeWords(about: string): Field<string | null> {
  return { described: { kind: "text", about: `${about}, or null` }, read: (value) => plainText(value) || null };
}

function oneWord<const T extends string>(choices: readonly T[], otherwise: T): Field<T> {
  return {
    described: { kind: "text", about: choices.join(" | ") },
    read: (value) => findWord(value, choices) ?? otherwise,
  };
}

function maybeWord<const T extends string>(choices: readonly T[]): Field<T | null> {
  return {
    described: { kind: "text", about: [...choices, "null"].join(" | ") },
    read: (value) => findWord(value, choices),
  };
}

/** From 0 to 100. A fraction below 1 is the same in another scale. */
function percent(about: string, otherwise: number): Field<number> {
  return {
    described: { kind: "bare", about: `0 to 100: ${about}` },
    read: (value) => {
      const number = numberIn(value);
      if (number === null) return otherwise;
      return clamp(number > 0 && number < 1 ? number * 100 : number, 100);
    },
  };
}

/** From 0 to 1. What is above is a percentage. */
function share(about: string, otherwise: number): Field<number> {
  return {
    described: { kind: "bare", about: `0 to 1: ${about}` },
    read: (value) => {
      const number = numberIn(value);
      if (number === null) return otherwise;
      return clamp(number > 1 ? number / 100 : number, 1);
    },
  };
}

function yesOrNo(about: string, otherwise: boolean): Field<boolean> {
  return {
    described: { kind: "bare", about: `true or false: ${about}` },
    read: (value) => {
      if (typeof value === "boolean") return value;
      const word = typeof value === "string" ? value.trim().toLowerCase() : "";
      return word === "true" || word === "yes" ? true : word === "false" || word === "no" ? false : otherwise;
    },
  };
}

/** A list, or a text with one item a line. */
function lines(about: string): Field<readonly string[]> {
  return {
    described: { kind: "list", of: { kind: "text", about } },
    read: (value) => {
      const items = typeof value === "string" ? value.split(/\r?\n/) : isJsonArray(value) ? value : [];
      return items
        .slice(0, MAX_ITEMS)
        .map((item) => plainText(item).replace(/^[-*]\s+/, ""))
        .filter((item) => item !== "");
    },
  };
}

function members<T extends object>(fields: { readonly [K in keyof T]-?: Field<T[K]> }): Field<T> {
  const names = Object.keys(fields) as (keyof T & string)[];
  return {
    described: { kind: "members", members: names.map((name) => [snakeCase(name), fields[name].described] as const) },
    read: (value) => {
      const byName = isJsonObject(value) ? namesOf(value) : new Map<string, Json>();
      const entries = names.map((name) => [name, fields[name].read(byName.get(bareName(name)))] as const);
      // Every name of T has been read by its own field.
      return Object.fromEntries(entries) as T;
    },
  };
}

/** A list of objects; what is none, or what `isUsable` finds nothing in, is left out. */
function listOf<T extends object>(item: Field<T>, isUsable: (read: T) => boolean): Field<readonly T[]> {
  return {
    described: { kind: "list", of: item.described },
    read: (value) => {
      const items = isJsonArray(value) ? value : isJsonObject(value) ? [value] : [];
      return items
        .slice(0, MAX_ITEMS)
        .filter((one) => isJsonObject(one))
        .map((one) => item.read(one))
        .filter(isUsable);
    },
  };
}

/** null when there is no object, or `isUsable` finds nothing in it. */
function maybe<T extends object>(item: Field<T>, isUsable: (read: T) => boolean): Field<T | null> {
  return {
    described: item.described,
    read: (value) => {
      if (!isJsonObject(value)) return null;
      const read = item.read(value);
      return isUsable(read) ? read : null;
    },
  };
}

/** The form that an agent fills in, as JSON that a person can read. */
function describeField(field: Field<unknown>): string {
  return describe(field.described, "");
}

function describe(described: Described, indent: string): string {
  switch (described.kind) {
    case "text":
      return JSON.stringify(described.about);
    case "bare":
      return `<${described.about}>`;
    case "list":
      return `[${describe(described.of, indent)}]`;
    case "members": {
      const inner = `${indent}  `;
      const listed = described.members.map(([name, one]) => `${inner}"${name}": ${describe(one, inner)}`);
      return `{\n${listed.join(",\n")}\n${indent}}`;
    }
  }
}

function namesOf(object: JsonObject): ReadonlyMap<string, Json> {
  return new Map(Object.entries(object).map(([name, value]) => [bareName(name), value]));
}

/** "files_modified", "filesModified" and "Files modified" are one name. */
function bareName(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}

function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function findWord<T extends string>(value: Json | undefined, choices: readonly T[]): T | null {
  const said = typeof value === "string" ? bareName(value) : "";
  return choices.find((choice) => bareName(choice) === said) ?? null;
}

function numberIn(value: Json | undefined): number | null {
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  const found = typeof value === "string" ? /^\s*(\d+(?:\.\d+)?)\s*%?\s*$/.exec(value) : null;
  return found === null ? null : Number(found[1]);
}

function clamp(value: number, most: number): number {
  return Math.min(Math.max(value, 0), most);
}

/** Half a character at the end of a cut, or made by an escape, could not be stored. */
function plainText(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  const said = typeof value === "string" ? value : JSON.stringify(value);
  return said.trim().slice(0, MAX_TEXT).toWellFormed();
}

type ReplyRecommendation = {
  readonly scope: string;
  readonly choice: string;
  readonly rationale: string;
  readonly confidence: number;
  readonly actionable: boolean;
};

type ReplyKnowledge = {
  readonly type: KnowledgeType;
  readonly content: string;
  readonly tags: readonly string[];
};

/** A question that only a person can answer. No options: any answer will do. */
export type ReplyEscalation = { readonly reason: string; readonly options: readonly string[] };

const REPLY_BROADCASTS = ["CONTEXT_UPDATE", "CHECKPOINT", "ABORT"] as const;
/** What everybody is told. CHECKPOINT has a checkpoint taken, ABORT ends the phase. */
type ReplyBroadcast = { readonly event: (typeof REPLY_BROADCASTS)[number]; readonly message: string };

/** Work that the agent found and somebody else should do. */
type FollowUp = { readonly agent: string; readonly action: string; readonly task: string };

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

type ParsedReply = AgentReply & {
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

const MAX_PROSE = 12_000;

/** What an agent wrote before the JSON that ends its answer: a specification, a plan. Empty: nothing, or no such end can be seen. */
export function proseOf(text: string): string {
  const end = text.lastIndexOf("```json");
  if (end === -1) return "";
  const prose = text.slice(0, end).trim();
  return prose.length <= MAX_PROSE ? prose : `${prose.slice(0, MAX_PROSE).toWellFormed()}\n(cut here)`;
}

// The forms that crunch agents fill in: one table describes each field in the prompt and reads it from the answer.

import { type Json, type JsonObject, isJsonArray, isJsonObject, objectsIn } from "@holdfast/core/json";
import { KNOWLEDGE_TYPES } from "./knowledge.ts";
import { type ConflictPosition, clamp } from "./messages.ts";

/**
 * A field of an agent's answer: its description for the agent, and its reader. Both are one value, so that prompt and
 * parser always agree. Reading never fails: agents write "85%", 0.85 and "85" for the same.
 */
interface Field<T> {
  readonly described: Described;
  readonly read: (value: Json | undefined) => T;
}

/** How a field appears in the form: a quoted text, a bare value such as a number, a list, or an object. */
type Described =
  | { readonly kind: "text"; readonly about: string }
  | { readonly kind: "bare"; readonly about: string }
  | { readonly kind: "list"; readonly of: Described }
  | { readonly kind: "members"; readonly members: readonly (readonly [string, Described])[] };

/** Texts are truncated, because an agent's text goes into prompts and checkpoints again. */
const MAX_TEXT = 4_000;
const MAX_ITEMS = 100;

function words(about: string): Field<string> {
  return { described: { kind: "text", about }, read: (value) => plainText(value) };
}

/** null if the value is missing or empty. */
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

/** From 0 to 100. A fraction below 1 is scaled up. */
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

/** From 0 to 1. A larger number is read as a percentage. */
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

/** A list, or a text with one item per line. */
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

function members<T extends object>(fields: { readonly [K in keyof T]-?: Field<T[K]> }): Field<Readonly<T>> {
  const names = Object.keys(fields) as (keyof T & string)[];
  return {
    described: { kind: "members", members: names.map((name) => [snakeCase(name), fields[name].described] as const) },
    read: (value) => {
      const byName = isJsonObject(value) ? namesOf(value) : new Map<string, Json>();
      const entries = names.map((name) => [name, fields[name].read(byName.get(bareName(name)))] as const);
      // Each field has read its own name of T, so the cast is safe.
      return Object.fromEntries(entries) as T;
    },
  };
}

/** A list of objects. Drops items that are not objects or that `isUsable` rejects. */
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

/** null if the value is not an object or `isUsable` rejects it. */
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

/** Formats the form for the agent as readable JSON. */
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

/** Treats "files_modified", "filesModified" and "Files modified" as one name. */
function bareName(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}

function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function findWord<T extends string>(value: Json | undefined, choices: readonly T[]): T | null {
  const given = typeof value === "string" ? bareName(value) : "";
  return choices.find((choice) => bareName(choice) === given) ?? null;
}

function numberIn(value: Json | undefined): number | null {
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  const found = typeof value === "string" ? /^\s*(\d+(?:\.\d+)?)\s*%?\s*$/.exec(value) : null;
  return found === null ? null : Number(found[1]);
}

/** Truncation or an escape can leave half a character, which the store could not hold. */
function plainText(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  const given = typeof value === "string" ? value : JSON.stringify(value);
  return given.trim().slice(0, MAX_TEXT).toWellFormed();
}

/** A message to all agents. CHECKPOINT requests a checkpoint, ABORT ends the phase. */
const REPLY_BROADCASTS = ["CONTEXT_UPDATE", "CHECKPOINT", "ABORT"] as const;
const STATUSES = ["SUCCESS", "PARTIAL", "BLOCKED", "FAILED"] as const;
const SEVERITIES = ["CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO"] as const;

const REPLY = members({
  status: oneWord(STATUSES, "PARTIAL"),
  summary: words("what you did and what came out, in a few sentences"),
  /** Paths of files that the agent wrote for others to read. */
  outputs: lines("path of a file that you wrote for others to read"),
  filesModified: lines("path of a file that you changed"),
  filesCreated: lines("path of a file that you made"),
  findings: listOf(
    members({
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
    members({
      scope: words("what it is about: a file, a component, a decision; others use the same words for the same thing"),
      choice: words("what should be done, in one line"),
      rationale: words("why"),
      confidence: percent("how sure you are", 50),
      actionable: yesOrNo("can it be done as it stands?", true),
    }),
    (recommendation) => recommendation.scope !== "" && recommendation.choice !== "",
  ),
  handoff: maybe(
    members({
      to: words("agent who should do it instead of you; leave this member out otherwise"),
      reason: words("why"),
    }),
    (handoff) => handoff.to !== "",
  ),
  /** Work that the agent found for another agent. */
  followUps: listOf(
    members({
      agent: words("agent who should do further work"),
      action: words("implement | review_code | investigate | document"),
      task: words("what is to be done"),
    }),
    (followUp) => followUp.agent !== "" && followUp.task !== "",
  ),
  /** A question that only the user can answer. Without options, any answer is accepted. */
  escalate: maybe(
    members({
      reason: words("what only a person can decide; leave this member out otherwise"),
      options: lines("answer that the person can give"),
    }),
    (escalate) => escalate.reason !== "",
  ),
  broadcasts: listOf(
    members({
      event: oneWord(REPLY_BROADCASTS, "CONTEXT_UPDATE"),
      message: words("what everybody must know"),
    }),
    (broadcast) => broadcast.message !== "",
  ),
  knowledge: listOf(
    members({
      type: oneWord(KNOWLEDGE_TYPES, "pattern"),
      content: words("what later work should know"),
      tags: lines("word that finds it again"),
    }),
    (knowledge) => knowledge.content !== "",
  ),
});

export type AgentReply = ReturnType<typeof REPLY.read>;
export type ReplyEscalation = NonNullable<AgentReply["escalate"]>;

/**
 * Reads every JSON object in an agent's answer, alone, fenced or inside prose. The last one with a status counts,
 * because an agent may repeat the form first. Without one, the reply is PARTIAL and the text is its summary.
 */
export function parseReply(text: string): AgentReply {
  const objects = objectsIn(text).toReversed();
  const filled = objects.find((object) => hasStatus(object));
  if (filled !== undefined) {
    const reply = REPLY.read(filled);
    return { ...reply, summary: reply.summary === "" ? shortened(text) : reply.summary };
  }
  return { ...REPLY.read(null), summary: shortened(text) };
}

function hasStatus(object: Json): boolean {
  // Reads the status as nullable, because REPLY replaces a missing one by a default.
  const status = members({ status: maybeWord(STATUSES) });
  return status.read(object).status !== null;
}

/** The end of a long answer, because agents conclude there. */
function shortened(text: string): string {
  return text.trim().slice(-MAX_TEXT).toWellFormed();
}

const POSITION = members({
  choice: words("what should be done, in one line; in the words of the choice when it is one of those given"),
  rationale: words("why"),
  evidence: lines("what proves it: a place in the code, a measurement, a document"),
  confidence: percent("how sure you are", 50),
  relevance: share("how much the matter belongs to what you know", 0.5),
  compromise: members({
    acceptable: yesOrNo("could you live with another choice?", false),
    conditions: lines("condition under which you could"),
    hybrid: maybeWords("the choice that you could live with, in one line"),
  }),
  veto: maybe(
    members({
      severity: oneWord(["CRITICAL", "HIGH"], "HIGH"),
      target: words("the choice that must not be taken; leave this member out when none is that dangerous"),
      reason: words("what would happen"),
    }),
    (veto) => veto.target !== "" && veto.reason !== "",
  ),
  escalate: maybeWord(["no_precedent", "business_impact", "explicit_request"]),
});

/** Reads an agent's position in a debate. null if it names no choice; the agent then keeps its previous position. */
export function parsePosition(text: string, agent: string): ConflictPosition | null {
  for (const object of objectsIn(text).toReversed()) {
    const position = POSITION.read(object);
    if (position.choice !== "") return { agent, ...position };
  }
  return null;
}

const MAX_PROSE = 12_000;

/**
 * What an answer delivers besides its JSON, such as a specification or a plan: the text before the JSON, or all of a text
 * without JSON that is more than a line. Empty if there is none: "Done." is not a specification.
 */
export function proseOf(text: string): string {
  const fenced = text.lastIndexOf("```json");
  const bare = /^\s*\{/.test(text) ? 0 : text.lastIndexOf("\n{");
  const end = fenced === -1 ? bare : fenced;
  const prose = (end === -1 ? text : text.slice(0, end)).trim();
  if (end === -1 && !prose.includes("\n")) return "";
  return prose.length <= MAX_PROSE ? prose : `${prose.slice(0, MAX_PROSE).toWellFormed()}\n(cut here)`;
}

/** Where agents find the whole form of an answer. Prompts describe only what every answer has. */
export const REPLY_REFERENCE = ".tmp/crunch-reply.md";

/** The text of that file, built from the tables that read the answers. */
export const REPLY_REFERENCE_TEXT = `# The JSON object that ends an answer

\`status\` and \`summary\` are in every answer. Leave out what is empty.

\`\`\`json
${describeField(REPLY)}
\`\`\`

# The JSON object that ends an answer in a debate

\`\`\`json
${describeField(POSITION)}
\`\`\`
`;

/** How an answer ends, for a prompt. `findings`: whether others decide by what this agent finds. */
export function replyForm({ findings }: { readonly findings: boolean }): string {
  const inline = findings
    ? ' What you find goes into "findings": [{"severity": "CRITICAL | HIGH | MEDIUM | LOW | INFO", "title", "description", "location": "file:line", "recommendation", "confidence": 0 to 100}].'
    : "";
  const others = namesIn(REPLY).filter(
    (name) => !["status", "summary", ...(findings ? ["findings"] : [])].includes(name),
  );
  return `End with one JSON object in a fenced block: {"status": "SUCCESS", "summary": "what you did and what came out"}. status is ${STATUSES.join(", ")}.${inline} Further members are described in ${REPLY_REFERENCE}; add them only if you have something for them: ${others.join(", ")}.`;
}

/** How an answer in a debate ends. */
export function positionForm(): string {
  const others = namesIn(POSITION).filter((name) => !["choice", "rationale", "confidence"].includes(name));
  return `End with one JSON object in a fenced block: {"choice": "what should be done, in one line", "rationale": "why", "confidence": 0 to 100}. Name a choice of the others in their words. Further members are described in ${REPLY_REFERENCE}: ${others.join(", ")}.`;
}

function namesIn({ described }: Field<unknown>): readonly string[] {
  return described.kind === "members" ? described.members.map(([name]) => name) : [];
}

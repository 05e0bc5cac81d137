// Knowledge that crunch runs keep for later runs: entries, their capture, selection and decay.

import { type TypeOf, anyOf, count, flag, list, nullable, object, sha256, text } from "@holdfast/core/json";
import { numberBetween } from "./messages.ts";
import type { Phase } from "./phases.ts";
import { PHASE_SHAPE } from "./team.ts";

export const KNOWLEDGE_TYPES = [
  "decision",
  "resolution",
  "pattern",
  "feedback",
  "incident",
  "remediation_pattern",
] as const;
export type KnowledgeType = (typeof KNOWLEDGE_TYPES)[number];

export const emptyKnowledge: KnowledgeLog = { entries: [], injected: [], captured: [], pending: [] };

export type KnowledgeChange =
  | { readonly kind: "changed"; readonly log: KnowledgeLog }
  /** The log already contains it. */
  | { readonly kind: "same" }
  | { readonly kind: "refused"; readonly why: string };

/** Records what a phase received, once per phase attempt. A repeated record changes nothing. */
export function injectKnowledge(
  log: KnowledgeLog,
  params: { readonly phase: Phase; readonly entries: readonly KnowledgeEntry[]; readonly at: string },
): KnowledgeChange {
  const { phase, at } = params;
  const known = log.injected.some((one) => one.phase === phase && one.at === at);
  if (known) return { kind: "same" };
  const before = new Set(log.injected.flatMap((one) => one.entries));
  const fresh = params.entries.filter((entry) => !before.has(entry.id));
  const injected = [...log.injected, { phase, entries: [...new Set(fresh.map((entry) => entry.id))], at }];
  return { kind: "changed", log: { ...log, injected, entries: withEntries(log.entries, params.entries) } };
}

/** Plans a capture. A name that is already planned or captured is not planned again. */
export function planCapture(log: KnowledgeLog, capture: PendingCapture): KnowledgeChange {
  const planned = log.pending.find((one) => one.name === capture.name);
  if (planned !== undefined) {
    return planned.content === capture.content && planned.type === capture.type
      ? { kind: "same" }
      : { kind: "refused", why: "another capture has this name" };
  }
  if (log.captured.some((one) => one.name === capture.name)) return { kind: "same" };
  if (plainContent(capture.content) === "") return { kind: "refused", why: "it is empty" };
  return { kind: "changed", log: { ...log, pending: [...log.pending, capture] } };
}

/**
 * Turns a planned capture into an entry, or links it to an existing entry with the same content. Afterwards its name is
 * settled.
 */
export function captureKnowledge(
  log: KnowledgeLog,
  params: { readonly name: string; readonly at: string },
): KnowledgeChange {
  const capture = log.pending.find((one) => one.name === params.name);
  if (capture === undefined) {
    const done = log.captured.some((one) => one.name === params.name);
    return done ? { kind: "same" } : { kind: "refused", why: "nothing was planned under this name" };
  }
  const pending = log.pending.filter((one) => one !== capture);
  const twin = log.entries.find((entry) => entry.type === capture.type && sameContent(entry.content, capture.content));
  const entry = twin === undefined ? entryOf({ capture, at: params.at, log }) : linked(twin, capture, params.at);
  const entries = twin === undefined ? [...log.entries, entry] : log.entries.map((one) => (one === twin ? entry : one));
  const captured = [...log.captured, { name: params.name, entry: entry.id, made: twin === undefined }];
  return { kind: "changed", log: { ...log, entries, pending, captured } };
}

/** Ids of the entries that this run captured, new or linked, each once. */
export function capturedEntries(log: KnowledgeLog): readonly string[] {
  return [...new Set(log.captured.map((one) => one.entry))];
}

export function injectedEntries(log: KnowledgeLog): readonly string[] {
  return [...new Set(log.injected.flatMap((one) => one.entries))];
}

/**
 * Builds `KE-{type}-{YYYYMMDD}-{hash4}`. Four digits collide early, so the hash grows until `taken` does not contain
 * the id.
 */
export function knowledgeId(params: {
  readonly type: KnowledgeType;
  readonly at: string;
  readonly content: string;
  readonly taken: ReadonlySet<string>;
}): string {
  const hash = sha256(plainContent(params.content));
  const stem = `KE-${params.type}-${params.at.slice(0, 10).replaceAll("-", "")}`;
  for (let length = 4; length < hash.length; length += 4) {
    const id = `${stem}-${hash.slice(0, length)}`;
    if (!params.taken.has(id)) return id;
  }
  return `${stem}-${hash}`;
}

export function isKnowledgeId(text: string): boolean {
  return /^KE-[\w-]{1,190}$/.test(text);
}

/** Differences in white space and line ends do not make new knowledge. */
function plainContent(content: string): string {
  return content.normalize("NFC").trim().replaceAll(/\s+/g, " ");
}

function sameContent(one: string, other: string): boolean {
  return plainContent(one) === plainContent(other);
}

function entryOf(params: {
  readonly capture: PendingCapture;
  readonly at: string;
  readonly log: KnowledgeLog;
}): KnowledgeEntry {
  const { capture, at, log } = params;
  const { type, content, tags, source } = capture;
  return {
    id: isKnowledgeId(capture.name)
      ? capture.name
      : knowledgeId({ type, at, content, taken: new Set(log.entries.map((entry) => entry.id)) }),
    type,
    createdAt: at,
    updatedAt: at,
    decay: 1,
    tags: [...new Set(tags)],
    source,
    content,
    relationships: { issues: [capture.issue], entries: [], supersedes: [], supersededBy: null },
  };
}

/** Links an entry to a capture with the same content: it becomes current again and also relates to this issue. */
function linked(entry: KnowledgeEntry, capture: PendingCapture, at: string): KnowledgeEntry {
  return {
    ...entry,
    updatedAt: at > entry.updatedAt ? at : entry.updatedAt,
    decay: 1,
    tags: [...new Set([...entry.tags, ...capture.tags])],
    relationships: {
      ...entry.relationships,
      issues: [...new Set([...entry.relationships.issues, capture.issue])],
    },
  };
}

/** An entry that the run already holds takes precedence, because the run may have linked it since. */
function withEntries(held: readonly KnowledgeEntry[], added: readonly KnowledgeEntry[]): readonly KnowledgeEntry[] {
  const entries = [...held];
  for (const entry of added) if (!entries.some((one) => one.id === entry.id)) entries.push(entry);
  return entries;
}

/**
 * Selects entries for a phase: those about this issue or with one of its tags, best match first, within the prompt's
 * limits. Leaves out superseded entries and entries that the run has already received.
 */
export function selectKnowledge(params: {
  readonly entries: readonly KnowledgeEntry[];
  readonly tags: readonly string[];
  readonly issue: number;
  readonly injected: readonly string[];
  readonly at: string;
  readonly maxEntries: number;
  readonly maxCharacters: number;
}): readonly KnowledgeEntry[] {
  const injected = new Set(params.injected);
  const ranked = params.entries
    .filter((entry) => entry.relationships.supersededBy === null && !injected.has(entry.id))
    .map((entry) => ({ entry, score: fitness(entry, params) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score || (a.entry.id < b.entry.id ? -1 : 1));
  const chosen: KnowledgeEntry[] = [];
  let left = params.maxCharacters;
  for (const { entry } of ranked) {
    if (chosen.length >= params.maxEntries) break;
    // Skips an entry that is too long, so that shorter ones after it still fit.
    if (entry.content.length > left) continue;
    left -= entry.content.length;
    chosen.push(entry);
  }
  return chosen;
}

/** Days after which the weight of an entry that is not captured again is halved. */
const HALF_LIFE_DAYS = 180;
const DAY = 86_400_000;

/**
 * The present weight of an entry: its recorded decay, reduced by age. A time that is unreadable or in the future does
 * not reduce it.
 */
export function decayed(entry: Pick<KnowledgeEntry, "decay" | "updatedAt">, at: string): number {
  const days = (Date.parse(at) - Date.parse(entry.updatedAt)) / DAY;
  return days > 0 ? entry.decay * 0.5 ** (days / HALF_LIFE_DAYS) : entry.decay;
}

function fitness(
  entry: KnowledgeEntry,
  params: { readonly tags: readonly string[]; readonly issue: number; readonly at: string },
): number {
  const wanted = new Set(params.tags.map((tag) => tag.toLowerCase()));
  const shared = new Set(entry.tags.map((tag) => tag.toLowerCase()).filter((tag) => wanted.has(tag))).size;
  const own = entry.relationships.issues.includes(params.issue) ? 3 : 0;
  return (shared + own) * decayed(entry, params.at);
}

const TYPE_SHAPE = anyOf(KNOWLEDGE_TYPES);

const SOURCE_SHAPE = object({
  type: anyOf(["issue", "review", "manual", "accumulated"]),
  ref: text,
  phase: nullable(PHASE_SHAPE),
});

export const KNOWLEDGE_ENTRY_SHAPE = object({
  /** Format: KE-{type}-{YYYYMMDD}-{hash}. */
  id: text,
  type: TYPE_SHAPE,
  createdAt: text,
  updatedAt: text,
  /** 1 for a new entry, down to 0 as it becomes outdated. */
  decay: numberBetween(0, 1),
  tags: list(text),
  source: SOURCE_SHAPE,
  content: text,
  relationships: object({
    issues: list(count),
    entries: list(text),
    supersedes: list(text),
    supersededBy: nullable(text),
  }),
});
export type KnowledgeEntry = TypeOf<typeof KNOWLEDGE_ENTRY_SHAPE>;

export const CAPTURE_SHAPE = object({
  name: text,
  type: TYPE_SHAPE,
  content: text,
  tags: list(text),
  source: SOURCE_SHAPE,
  issue: count,
});
/**
 * Knowledge that is planned but not captured yet. Its name is unique within the run. A name that is an entry's id comes
 * from an imported document: the entry gets this id.
 */
export type PendingCapture = TypeOf<typeof CAPTURE_SHAPE>;

export const KNOWLEDGE_SHAPE = object({
  /** Every entry that the run has received or captured. */
  entries: list(KNOWLEDGE_ENTRY_SHAPE),
  injected: list(object({ phase: PHASE_SHAPE, entries: list(text), at: text })),
  /** The result of each capture by name: a new entry, or an existing entry with the same content. */
  captured: list(object({ name: text, entry: text, made: flag })),
  pending: list(CAPTURE_SHAPE),
});
/** The knowledge of a run: what it received, what it captured and what is still pending. */
export type KnowledgeLog = TypeOf<typeof KNOWLEDGE_SHAPE>;

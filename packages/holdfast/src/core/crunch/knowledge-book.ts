import { pureSha256 } from "../sha256.ts";
import type { KnowledgeBook, KnowledgeEntry, KnowledgeType, PendingCapture } from "./knowledge.ts";
import type { Phase } from "./phase.ts";

export type BookChange =
  | { readonly kind: "changed"; readonly book: KnowledgeBook }
  /** It was so already. */
  | { readonly kind: "same" }
  | { readonly kind: "refused"; readonly why: string };

/** Writes down what a phase was told. A phase is told once a stay; the same again changes nothing. */
export function injectKnowledge(
  book: KnowledgeBook,
  params: { readonly phase: Phase; readonly entries: readonly KnowledgeEntry[]; readonly at: string },
): BookChange {
  const { phase, at } = params;
  const known = book.injected.some((one) => one.phase === phase && one.at === at);
  if (known) return { kind: "same" };
  const told = new Set(book.injected.flatMap((one) => one.entries));
  const fresh = params.entries.filter((entry) => !told.has(entry.id));
  const injected = [...book.injected, { phase, entries: [...new Set(fresh.map((entry) => entry.id))], at }];
  return { kind: "changed", book: { ...book, injected, entries: withEntries(book.entries, params.entries) } };
}

/** Something is to be kept. A name that was planned or kept before is not planned again. */
export function planCapture(book: KnowledgeBook, capture: PendingCapture): BookChange {
  const planned = book.pending.find((one) => one.name === capture.name);
  if (planned !== undefined) {
    return planned.content === capture.content && planned.type === capture.type
      ? { kind: "same" }
      : { kind: "refused", why: "another capture has this name" };
  }
  if (book.captured.some((one) => one.name === capture.name)) return { kind: "same" };
  if (plainContent(capture.content) === "") return { kind: "refused", why: "it says nothing" };
  return { kind: "changed", book: { ...book, pending: [...book.pending, capture] } };
}

/** A planned capture becomes an entry, or a link to the one that says the same. Once: afterwards its name is settled. */
export function captureKnowledge(
  book: KnowledgeBook,
  params: { readonly name: string; readonly at: string },
): BookChange {
  const capture = book.pending.find((one) => one.name === params.name);
  if (capture === undefined) {
    const done = book.captured.some((one) => one.name === params.name);
    return done ? { kind: "same" } : { kind: "refused", why: "nothing was planned under this name" };
  }
  const pending = book.pending.filter((one) => one !== capture);
  const twin = book.entries.find((entry) => entry.type === capture.type && sameContent(entry.content, capture.content));
  const entry = twin === undefined ? entryOf({ capture, at: params.at, book }) : linked(twin, capture, params.at);
  const entries =
    twin === undefined ? [...book.entries, entry] : book.entries.map((one) => (one === twin ? entry : one));
  const captured = [...book.captured, { name: params.name, entry: entry.id, made: twin === undefined }];
  return { kind: "changed", book: { ...book, entries, pending, captured } };
}

/** Ids of what this run itself made, each once. */
export function capturedEntries(book: KnowledgeBook): readonly string[] {
  return [...new Set(book.captured.map((one) => one.entry))];
}

export function injectedEntries(book: KnowledgeBook): readonly string[] {
  return [...new Set(book.injected.flatMap((one) => one.entries))];
}

/**
 * `KE-{type}-{YYYYMMDD}-{hash4}`. Four digits collide soon, so the hash is as much longer as it must be for `taken` not to hold
 * another entry under the same id.
 */
export function knowledgeId(params: {
  readonly type: KnowledgeType;
  readonly at: string;
  readonly content: string;
  readonly taken: ReadonlySet<string>;
}): string {
  const hash = pureSha256(plainContent(params.content));
  const stem = `KE-${params.type}-${params.at.slice(0, 10).replaceAll("-", "")}`;
  for (let length = 4; length < hash.length; length += 4) {
    const id = `${stem}-${hash.slice(0, length)}`;
    if (!params.taken.has(id)) return id;
  }
  return `${stem}-${hash}`;
}

/** White space and line ends make no new knowledge. */
function plainContent(content: string): string {
  return content.normalize("NFC").trim().replaceAll(/\s+/g, " ");
}

function sameContent(one: string, other: string): boolean {
  return plainContent(one) === plainContent(other);
}

function entryOf(params: {
  readonly capture: PendingCapture;
  readonly at: string;
  readonly book: KnowledgeBook;
}): KnowledgeEntry {
  const { capture, at, book } = params;
  const { type, content, tags, source } = capture;
  return {
    id: knowledgeId({ type, at, content, taken: new Set(book.entries.map((entry) => entry.id)) }),
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

/** Said again, it is as good as new, and it concerns this issue too. */
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

/** What the run already holds is newer than what it is told: it may have been linked meanwhile. */
function withEntries(held: readonly KnowledgeEntry[], told: readonly KnowledgeEntry[]): readonly KnowledgeEntry[] {
  const entries = [...held];
  for (const entry of told) if (!entries.some((one) => one.id === entry.id)) entries.push(entry);
  return entries;
}

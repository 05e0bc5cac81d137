import type { JsonObject } from "../json.ts";
import type { KnowledgeEntry } from "./knowledge.ts";

/** `.claude/knowledge/index.yaml` as crunch has it. Made from the entries each time, so that it cannot disagree with them. */
export function knowledgeIndex(params: {
  readonly entries: readonly KnowledgeEntry[];
  readonly updatedAt: string;
}): JsonObject {
  const entries = params.entries.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  return {
    version: "1.0",
    last_updated: params.updatedAt,
    stats: { total_entries: entries.length, by_type: counts(entries.map((entry) => entry.type)) },
    entries: entries.map((entry) => ({
      id: entry.id,
      type: entry.type,
      created_at: entry.createdAt,
      updated_at: entry.updatedAt,
      decay_score: entry.decay,
      tags: entry.tags,
    })),
    tag_index: indexed(entries, (entry) => entry.tags),
    issue_index: indexed(entries, (entry) => entry.relationships.issues.map(String)),
  };
}

/** An entry as a file of crunch's, in its members and their order. */
export function knowledgeDocument(entry: KnowledgeEntry): JsonObject {
  return {
    id: entry.id,
    type: entry.type,
    created_at: entry.createdAt,
    updated_at: entry.updatedAt,
    decay_score: entry.decay,
    tags: entry.tags,
    source: { type: entry.source.type, ref: entry.source.ref, phase: entry.source.phase },
    content: entry.content,
    relationships: {
      related_issues: entry.relationships.issues,
      related_entries: entry.relationships.entries,
      supersedes: entry.relationships.supersedes,
      superseded_by: entry.relationships.supersededBy,
    },
  };
}

function indexed(
  entries: readonly KnowledgeEntry[],
  keysOf: (entry: KnowledgeEntry) => readonly string[],
): Readonly<Record<string, readonly string[]>> {
  const index = new Map<string, Set<string>>();
  for (const entry of entries) {
    for (const key of keysOf(entry)) index.set(key, (index.get(key) ?? new Set()).add(entry.id));
  }
  // A tag may be called __proto__; fromEntries makes it a plain member.
  return Object.fromEntries([...index].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([key, ids]) => [key, [...ids]]));
}

function counts(words: readonly string[]): Readonly<Record<string, number>> {
  const totals = new Map<string, number>();
  for (const word of words) totals.set(word, (totals.get(word) ?? 0) + 1);
  return Object.fromEntries([...totals].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

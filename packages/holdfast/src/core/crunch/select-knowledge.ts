import type { KnowledgeEntry } from "./knowledge.ts";

/**
 * What a phase is told of what is known: entries about this issue or with one of its tags, the most fitting first, no more than a
 * prompt can carry. What was superseded is left out, and what the run was told before too.
 */
export function selectKnowledge(params: {
  readonly entries: readonly KnowledgeEntry[];
  readonly tags: readonly string[];
  readonly issue: number;
  readonly told: readonly string[];
  readonly at: string;
  readonly maxEntries: number;
  readonly maxCharacters: number;
}): readonly KnowledgeEntry[] {
  const told = new Set(params.told);
  const ranked = params.entries
    .filter((entry) => entry.relationships.supersededBy === null && !told.has(entry.id))
    .map((entry) => ({ entry, score: fitness(entry, params) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score || (a.entry.id < b.entry.id ? -1 : 1));
  const chosen: KnowledgeEntry[] = [];
  let left = params.maxCharacters;
  for (const { entry } of ranked) {
    if (chosen.length >= params.maxEntries) break;
    // A long one that does not fit makes room for shorter ones after it.
    if (entry.content.length > left) continue;
    left -= entry.content.length;
    chosen.push(entry);
  }
  return chosen;
}

/** Half as much after this many days without anybody saying it again. */
const HALF_LIFE_DAYS = 180;
const DAY = 86_400_000;

/** What an entry is worth now: as written down, less for its age. A time that cannot be read or lies ahead makes nothing of it. */
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

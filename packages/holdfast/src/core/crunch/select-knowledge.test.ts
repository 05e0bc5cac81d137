import fc from "fast-check";
import { expect, test } from "vitest";
import { SAMPLE_AT } from "./crunch-sample.ts";
import { knowledgeDocument, knowledgeIndex } from "./knowledge-index.ts";
import type { KnowledgeEntry } from "./knowledge.ts";
import { parseKnowledge } from "./parse-knowledge.ts";
import { decayed, selectKnowledge } from "./select-knowledge.ts";

function entry(id: string, changes: Partial<KnowledgeEntry> = {}, issues: readonly number[] = []): KnowledgeEntry {
  return {
    id: `KE-${id}`,
    type: "pattern",
    createdAt: SAMPLE_AT,
    updatedAt: SAMPLE_AT,
    decay: 1,
    tags: ["auth"],
    source: { type: "issue", ref: "#1", phase: null },
    content: `content of ${id}`,
    relationships: { issues, entries: [], supersedes: [], supersededBy: null },
    ...changes,
  };
}

function select(entries: readonly KnowledgeEntry[], changes: Partial<Parameters<typeof selectKnowledge>[0]> = {}) {
  const chosen = selectKnowledge({
    entries,
    tags: ["Auth", "go"],
    issue: 42,
    told: [],
    at: SAMPLE_AT,
    maxEntries: 10,
    maxCharacters: 10_000,
    ...changes,
  });
  return chosen.map((one) => one.id);
}

test("what fits best comes first: the issue itself, then more tags, then what is fresher", () => {
  const old = entry("old", { updatedAt: "2025-01-14T10:30:00.000Z" });
  const both = entry("both", { tags: ["auth", "go"] });
  expect(select([old, entry("plain"), both, entry("own", { tags: [] }, [42])])).toEqual([
    "KE-own",
    "KE-both",
    "KE-plain",
    "KE-old",
  ]);
});

test("what does not concern it, was superseded or was told already is left out", () => {
  const superseded = entry("gone", {
    relationships: { issues: [], entries: [], supersedes: [], supersededBy: "KE-new" },
  });
  expect(select([entry("other", { tags: ["css"] }), superseded, entry("told")], { told: ["KE-told"] })).toEqual([]);
});

test("no more than asked for; a long one makes room for shorter ones", () => {
  const many = Array.from({ length: 5 }, (_, index) => entry(`n${index}`));
  expect(select(many, { maxEntries: 2 })).toEqual(["KE-n0", "KE-n1"]);
  const long = entry("a-long-one", { content: "x".repeat(100), tags: ["auth", "go"] });
  expect(select([long, entry("short", { content: "y" })], { maxCharacters: 50 })).toEqual(["KE-short"]);
});

test("half as much after half a year; a clock that went back makes it no better", () => {
  expect(decayed(entry("x", { updatedAt: "2025-07-18T10:30:00.000Z" }), SAMPLE_AT)).toBeCloseTo(0.5);
  expect(decayed(entry("x", { updatedAt: "2030-01-01T00:00:00.000Z" }), SAMPLE_AT)).toBe(1);
  expect(decayed(entry("x", { updatedAt: "no time" }), SAMPLE_AT)).toBe(1);
});

const someEntry = fc
  .record({
    id: fc.stringMatching(/^[a-z0-9-]{1,10}$/),
    tags: fc.array(fc.constantFrom("auth", "go", "css", "__proto__")),
    decay: fc.constantFrom(0, 0.5, 1),
    content: fc.string(),
    issues: fc.array(fc.nat(50)),
  })
  .map(({ id, issues, ...rest }) => entry(id, rest, issues));
const someEntries = fc.uniqueArray(someEntry, { selector: (one) => one.id });

test("chosen alike in whatever order the entries are, and within both bounds", () => {
  fc.assert(
    fc.property(someEntries, fc.nat(5), fc.nat(60), (entries, maxEntries, maxCharacters) => {
      const chosen = select(entries, { maxEntries, maxCharacters });
      expect(select(entries.toReversed(), { maxEntries, maxCharacters })).toEqual(chosen);
      expect(chosen.length).toBeLessThanOrEqual(maxEntries);
      const length = entries.filter((one) => chosen.includes(one.id)).reduce((sum, one) => sum + one.content.length, 0);
      expect(length).toBeLessThanOrEqual(maxCharacters);
    }),
  );
});

test("an entry is the same after a trip through its file", () => {
  fc.assert(
    fc.property(someEntry, (one) => {
      expect(parseKnowledge(JSON.parse(JSON.stringify(knowledgeDocument(one))))).toEqual(one);
    }),
  );
});

test("a file that somebody else wrote is read as far as it goes, or not at all", () => {
  expect(parseKnowledge(null)).toBeNull();
  expect(parseKnowledge({ id: "../x", type: "pattern", created_at: SAMPLE_AT })).toBeNull();
  expect(parseKnowledge({ id: "KE-x", type: "rumour", created_at: SAMPLE_AT })).toBeNull();
  expect(
    parseKnowledge({
      id: "KE-x",
      type: "decision",
      created_at: SAMPLE_AT,
      decay_score: 7,
      content: { context: "c", choice: "d" },
      source: { type: "gossip", ref: 42, phase: "validation" },
      relationships: { related_issues: ["7", 8, "x", -1] },
    }),
  ).toMatchObject({
    decay: 1,
    content: '{"context":"c","choice":"d"}',
    source: { type: "manual", ref: "42", phase: "e2e" },
    relationships: { issues: [7, 8] },
    updatedAt: SAMPLE_AT,
  });
});

test("the index is that of the entries, and nothing else", () => {
  fc.assert(
    fc.property(someEntries, (entries) => {
      const index = knowledgeIndex({ entries, updatedAt: SAMPLE_AT });
      expect(knowledgeIndex({ entries: entries.toReversed(), updatedAt: SAMPLE_AT })).toEqual(index);
      expect(index).toMatchObject({ stats: { total_entries: entries.length } });
      const tags = Object.entries(index["tag_index"] as Record<string, readonly string[]>);
      for (const [tag, ids] of tags) {
        expect(ids.toSorted()).toEqual(
          entries
            .filter((one) => one.tags.includes(tag))
            .map((one) => one.id)
            .toSorted(),
        );
      }
      expect(new Set(tags.map(([tag]) => tag))).toEqual(new Set(entries.flatMap((one) => one.tags)));
    }),
  );
});

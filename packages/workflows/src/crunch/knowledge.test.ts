import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SAMPLE_AT, sampleCapture } from "@holdfast/test-support/workflows/crunch-sample";
import {
  type KnowledgeChange,
  type KnowledgeEntry,
  type KnowledgeLog,
  type PendingCapture,
  captureKnowledge,
  capturedEntries,
  decayed,
  emptyKnowledge,
  injectKnowledge,
  injectedEntries,
  knowledgeId,
  planCapture,
  selectKnowledge,
} from "./knowledge.ts";

describe("knowledge", () => {
  function after(book: KnowledgeLog, change: KnowledgeChange): KnowledgeLog {
    return change.kind === "changed" ? change.log : book;
  }

  function capture(book: KnowledgeLog, one: PendingCapture, at = SAMPLE_AT): KnowledgeLog {
    const planned = after(book, planCapture(book, one));
    return after(planned, captureKnowledge(planned, { name: one.name, at }));
  }

  test("planned, then stored: its id has type, date and four digits of its content's hash", () => {
    const planned = after(emptyKnowledge, planCapture(emptyKnowledge, sampleCapture("n", "Keep tokens in Redis")));
    expect(planned.pending).toHaveLength(1);
    const book = capture(emptyKnowledge, sampleCapture("n", "Keep tokens in Redis"));
    expect(book.pending).toEqual([]);
    expect(book.entries).toMatchObject([{ id: expect.stringMatching(/^KE-decision-20260114-[0-9a-f]{4}$/), decay: 1 }]);
    expect(capturedEntries(book)).toEqual([book.entries[0]?.id]);
  });

  describe("nothing is stored twice", () => {
    test("the same name, on resume", () => {
      const book = capture(emptyKnowledge, sampleCapture("n", "x"));
      expect(planCapture(book, sampleCapture("n", "x"))).toEqual({ kind: "same" });
      expect(captureKnowledge(book, { name: "n", at: "2027-01-01T00:00:00.000Z" })).toEqual({ kind: "same" });
    });

    test("the same content under another name is a link", () => {
      const first = capture(emptyKnowledge, sampleCapture("n", "Keep it\nsimple"));
      const second = capture(
        first,
        sampleCapture("m", " Keep it simple ", { issue: 43, tags: ["more"] }),
        "2026-02-01T00:00:00.000Z",
      );
      expect(second.entries).toMatchObject([
        { tags: ["auth", "more"], relationships: { issues: [42, 43] }, updatedAt: "2026-02-01T00:00:00.000Z" },
      ]);
      expect(second.captured).toMatchObject([{ made: true }, { made: false }]);
    });

    test("the same content as injected knowledge is a link too", () => {
      const known = capture(emptyKnowledge, sampleCapture("n", "x")).entries;
      const book = after(
        emptyKnowledge,
        injectKnowledge(emptyKnowledge, { phase: "enrich", entries: known, at: SAMPLE_AT }),
      );
      expect(capture(book, sampleCapture("mine", "x"), "2030-01-01T00:00:00.000Z").entries).toHaveLength(1);
    });
  });

  test.each([
    ["nothing was planned", captureKnowledge(emptyKnowledge, { name: "n", at: SAMPLE_AT })],
    ["it is empty", planCapture(emptyKnowledge, sampleCapture("n", " \n"))],
    [
      "another capture has this name",
      planCapture({ ...emptyKnowledge, pending: [sampleCapture("n", "x")] }, sampleCapture("n", "y")),
    ],
  ])("refused: %s", (why, change) => {
    expect(change).toMatchObject({ kind: "refused", why: expect.stringContaining(why) });
  });

  test("defect 14: if four digits collide, the id is longer, never another's", () => {
    const parts = { type: "pattern", at: SAMPLE_AT, content: "x" } as const;
    const short = knowledgeId({ ...parts, taken: new Set() });
    const longer = knowledgeId({ ...parts, taken: new Set([short]) });
    expect(short).toMatch(/^KE-pattern-20260114-[0-9a-f]{4}$/);
    expect(longer).toMatch(/^KE-pattern-20260114-[0-9a-f]{8}$/);
    expect(longer.startsWith(short)).toBe(true);
  });

  test("a phase gets knowledge once per stage attempt, and an entry once per run", () => {
    const { entries } = capture(emptyKnowledge, sampleCapture("n", "x"));
    const once = after(emptyKnowledge, injectKnowledge(emptyKnowledge, { phase: "enrich", entries, at: SAMPLE_AT }));
    expect(injectKnowledge(once, { phase: "enrich", entries, at: SAMPLE_AT })).toEqual({ kind: "same" });
    const twice = after(once, injectKnowledge(once, { phase: "implementing", entries, at: SAMPLE_AT }));
    expect(twice.injected.map((one) => one.entries.length)).toEqual([1, 0]);
    expect(injectedEntries(twice)).toHaveLength(1);
  });

  test("storing is idempotent by content: one entry per content, for any order and repeats", () => {
    const some = fc.array(
      fc.record({
        name: fc.constantFrom("a", "b", "c", "d", "e"),
        content: fc.constantFrom("x", "y", " x ", "z  z", "z z"),
      }),
    );
    fc.assert(
      fc.property(some, (drawn) => {
        const book = drawn.reduce((held, one) => capture(held, sampleCapture(one.name, one.content)), emptyKnowledge);
        const first = new Map<string, string>();
        for (const { name, content } of drawn)
          if (!first.has(name)) first.set(name, content.trim().replaceAll(/\s+/g, " "));
        expect(book.entries).toHaveLength(new Set(first.values()).size);
        expect(new Set(book.entries.map((entry) => entry.id)).size).toBe(book.entries.length);
        expect(book.captured).toHaveLength(first.size);
        expect(drawn.reduce((held, one) => capture(held, sampleCapture(one.name, one.content)), book)).toEqual(book);
      }),
    );
  });
});

describe("select knowledge", () => {
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
      injected: [],
      at: SAMPLE_AT,
      maxEntries: 10,
      maxCharacters: 10_000,
      ...changes,
    });
    return chosen.map((one) => one.id);
  }

  test("the best match comes first: the issue itself, then more tags, then the newest", () => {
    const old = entry("old", { updatedAt: "2025-01-14T10:30:00.000Z" });
    const both = entry("both", { tags: ["auth", "go"] });
    expect(select([old, entry("plain"), both, entry("own", { tags: [] }, [42])])).toEqual([
      "KE-own",
      "KE-both",
      "KE-plain",
      "KE-old",
    ]);
  });

  test("unrelated, superseded and already injected entries are left out", () => {
    const superseded = entry("gone", {
      relationships: { issues: [], entries: [], supersedes: [], supersededBy: "KE-new" },
    });
    expect(select([entry("other", { tags: ["css"] }), superseded, entry("known")], { injected: ["KE-known"] })).toEqual(
      [],
    );
  });

  test("at most the requested number; a long one is skipped for shorter ones", () => {
    const many = Array.from({ length: 5 }, (_, index) => entry(`n${index}`));
    expect(select(many, { maxEntries: 2 })).toEqual(["KE-n0", "KE-n1"]);
    const long = entry("a-long-one", { content: "x".repeat(100), tags: ["auth", "go"] });
    expect(select([long, entry("short", { content: "y" })], { maxCharacters: 50 })).toEqual(["KE-short"]);
  });

  test("half the weight after half a year; a clock that was set back does not raise it", () => {
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

  test("the choice is the same in any order of entries, and within both bounds", () => {
    fc.assert(
      fc.property(someEntries, fc.nat(5), fc.nat(60), (entries, maxEntries, maxCharacters) => {
        const chosen = select(entries, { maxEntries, maxCharacters });
        expect(select(entries.toReversed(), { maxEntries, maxCharacters })).toEqual(chosen);
        expect(chosen.length).toBeLessThanOrEqual(maxEntries);
        const length = entries
          .filter((one) => chosen.includes(one.id))
          .reduce((sum, one) => sum + one.content.length, 0);
        expect(length).toBeLessThanOrEqual(maxCharacters);
      }),
    );
  });
});

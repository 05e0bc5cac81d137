import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SAMPLE_AT, sampleCapture } from "./crunch-sample.ts";
import {
  capturedEntries,
  captureKnowledge,
  injectedEntries,
  injectKnowledge,
  knowledgeId,
  planCapture,
} from "./knowledge-book.ts";
import type { BookChange } from "./knowledge-book.ts";
import { emptyKnowledge } from "./knowledge.ts";
import type { KnowledgeBook, PendingCapture } from "./knowledge.ts";

function after(book: KnowledgeBook, change: BookChange): KnowledgeBook {
  return change.kind === "changed" ? change.book : book;
}

function capture(book: KnowledgeBook, one: PendingCapture, at = SAMPLE_AT): KnowledgeBook {
  const planned = after(book, planCapture(book, one));
  return after(planned, captureKnowledge(planned, { name: one.name, at }));
}

test("planned, then kept: its id has type, date and four digits of its content's hash", () => {
  const planned = after(emptyKnowledge, planCapture(emptyKnowledge, sampleCapture("n", "Keep tokens in Redis")));
  expect(planned.pending).toHaveLength(1);
  const book = capture(emptyKnowledge, sampleCapture("n", "Keep tokens in Redis"));
  expect(book.pending).toEqual([]);
  expect(book.entries).toMatchObject([{ id: expect.stringMatching(/^KE-decision-20260114-[0-9a-f]{4}$/), decay: 1 }]);
  expect(capturedEntries(book)).toEqual([book.entries[0]?.id]);
});

describe("nothing is kept twice", () => {
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

  test("the same content of what the run was told is a link too", () => {
    const told = capture(emptyKnowledge, sampleCapture("n", "x")).entries;
    const book = after(
      emptyKnowledge,
      injectKnowledge(emptyKnowledge, { phase: "enrich", entries: told, at: SAMPLE_AT }),
    );
    expect(capture(book, sampleCapture("mine", "x"), "2030-01-01T00:00:00.000Z").entries).toHaveLength(1);
  });
});

test.each([
  ["nothing was planned", captureKnowledge(emptyKnowledge, { name: "n", at: SAMPLE_AT })],
  ["it says nothing", planCapture(emptyKnowledge, sampleCapture("n", " \n"))],
  [
    "another capture has this name",
    planCapture({ ...emptyKnowledge, pending: [sampleCapture("n", "x")] }, sampleCapture("n", "y")),
  ],
])("refused: %s", (why, change) => {
  expect(change).toMatchObject({ kind: "refused", why: expect.stringContaining(why) });
});

test("defect 14: four digits collide, and then the id is longer, never another's", () => {
  const parts = { type: "pattern", at: SAMPLE_AT, content: "x" } as const;
  const short = knowledgeId({ ...parts, taken: new Set() });
  const longer = knowledgeId({ ...parts, taken: new Set([short]) });
  expect(short).toMatch(/^KE-pattern-20260114-[0-9a-f]{4}$/);
  expect(longer).toMatch(/^KE-pattern-20260114-[0-9a-f]{8}$/);
  expect(longer.startsWith(short)).toBe(true);
});

test("a phase is told once a stay, and an entry once a run", () => {
  const { entries } = capture(emptyKnowledge, sampleCapture("n", "x"));
  const once = after(emptyKnowledge, injectKnowledge(emptyKnowledge, { phase: "enrich", entries, at: SAMPLE_AT }));
  expect(injectKnowledge(once, { phase: "enrich", entries, at: SAMPLE_AT })).toEqual({ kind: "same" });
  const twice = after(once, injectKnowledge(once, { phase: "implementing", entries, at: SAMPLE_AT }));
  expect(twice.injected.map((one) => one.entries.length)).toEqual([1, 0]);
  expect(injectedEntries(twice)).toHaveLength(1);
});

test("keeping is idempotent by content: as many entries as there are different contents, whatever the order and the repeats", () => {
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

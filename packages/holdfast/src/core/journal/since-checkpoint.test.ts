import fc from "fast-check";
import { expect, test } from "vitest";
import { NO_VISIT } from "../position/visit.ts";
import { foldSince } from "./since-checkpoint.ts";

const id = (letter: string): string => letter.repeat(40);
const finished = (result: string | object) => ({
  kind: "step.finished" as const,
  body: { visit: 1, step: "s", result: JSON.parse(JSON.stringify(result)), spent: null },
});

test("commits are found wherever a result or a receipt holds them, and nothing else is taken for one", () => {
  const { commits, changesFiles } = foldSince({
    visit: NO_VISIT,
    entries: [
      finished({ head: id("a"), other: [{ deep: id("b") }] }),
      { kind: "effect.settled", body: { key: "k", outcome: "done", adopted: false, receipt: { commit: id("c") } } },
      finished("abc"),
      { kind: "note", body: { text: id("d") } },
      { kind: "step.started", body: { visit: 1, step: "s", files: false, estimate: null } },
    ],
  });
  expect([...commits].toSorted()).toEqual([id("a"), id("b"), id("c")]);
  expect(changesFiles).toBe(false);
});

test("more entries never take anything back, in whatever order they come", () => {
  const entry = fc.constantFrom(
    finished({ head: id("a") }),
    finished({ head: id("b") }),
    { kind: "step.started" as const, body: { visit: 1, step: "s", files: true, estimate: null } },
    { kind: "step.failed" as const, body: { visit: 1, step: "s", reason: "r", spent: null } },
  );
  fc.assert(
    fc.property(fc.array(entry), fc.array(entry), (a, b) => {
      const both = foldSince({ visit: NO_VISIT, entries: [...a, ...b] });
      const parts = [a, b].map((entries) => foldSince({ visit: NO_VISIT, entries }));
      expect(both.changesFiles).toBe(parts.some((one) => one.changesFiles));
      expect(both.commits).toEqual(new Set(parts.flatMap((one) => [...one.commits])));
    }),
  );
});

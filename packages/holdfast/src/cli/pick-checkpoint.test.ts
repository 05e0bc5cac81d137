import { expect, test } from "vitest";
import type { CheckpointPreview } from "@holdfast/core/find-rollback";
import type { RollbackChoice } from "@holdfast/core/rollback";
import { PAGE, sampleSummary } from "@holdfast/test-support/sample-run";
import { displayWidth } from "./output/text.ts";
import { previewText, rollbackText } from "./pick-checkpoint.ts";

const previews: readonly CheckpointPreview[] = [
  {
    checkpoint: sampleSummary({ sequence: 9, score: 60, trigger: "iteration" }),
    files: { added: 0, modified: 0, removed: 0 },
    effects: [],
  },
  {
    checkpoint: sampleSummary({ sequence: 8, score: 85, name: "before the refactor" }),
    files: { added: 2, modified: 11, removed: 1 },
    effects: ["push on origin/x"],
  },
  { checkpoint: sampleSummary({ sequence: 7, quarantined: true }), files: null, effects: ["a on b", "c on d"] },
];

const advice: RollbackChoice = {
  kind: "back",
  chosen: 8,
  why: "it is the newest that is whole and surely before the cause",
  cause: { kind: "regression", why: "The score fell from 85 (checkpoint 8) to 60 (checkpoint 9)" },
  rejected: [
    { sequence: 9, kind: "known_bad", why: "its files scored 60, those of checkpoint 8 85" },
    { sequence: 7, kind: "quarantined", why: "it is quarantined as damaged" },
  ],
  adopted: [{ key: "k", kind: "push", target: "origin/x", entry: 30, unsafe: null }],
  accepted: [],
};

test("each checkpoint has the facts that a choice needs", () => {
  expect(previewText(previews, advice, { ...PAGE, width: 120 })).toMatchInlineSnapshot(`
    "NO  WHEN       STAGE         SCORE  TRIGGER    FILES SINCE                EFFECTS SINCE     NOTE
     9  5 min ago  implement #2     60  iteration  none                                         known bad
     8  5 min ago  implement #2     85  manual     11 changed, 2 new, 1 gone  push on origin/x  advised, "before the refact…
     7  5 min ago  implement #2         manual     ?                          2: a on b, …      quarantined
    "
  `);
  for (const width of [40, 60, 80]) {
    const lines = previewText(previews, advice, { ...PAGE, width }).split("\n");
    expect(lines.filter((line) => displayWidth(line) > Math.max(width, 60))).toEqual([]);
  }
});

test("the reason of the choice, and the reasons against the others", () => {
  expect(rollbackText("fix-login", advice, PAGE)).toMatchInlineSnapshot(`
    "cause    The score fell from 85 (checkpoint 8) to 60 (checkpoint 9).
    go back  to fix-login@8: it is the newest that is whole and surely before the
             cause.
    effect   push on origin/x stays done, and is not repeated.
    Why not the others:
      9      its files scored 60, those of checkpoint 8 85
      7      it is quarantined as damaged
    "
  `);
});

test("without a choice or without anything to do; many reasons are cut", () => {
  const rejected = Array.from(
    { length: 40 },
    (_, at) => ({ sequence: 40 - at, kind: "effect", why: `reason ${at}` }) as const,
  );
  const { cause } = advice;
  const none: RollbackChoice = { kind: "none", chosen: null, why: "None is safe", cause, rejected, effects: [] };
  expect(rollbackText("r", none, PAGE)).toMatch(
    /^cause {4}The score[^]*\nstop {5}None is safe\.\n[^]*… and 20 more \(all with --json\)\n$/,
  );
  const stay: RollbackChoice = { kind: "stay", chosen: 3, why: "Going back would fix nothing", cause, rejected: [] };
  expect(rollbackText("r", stay, PAGE)).toMatch(/\nstay {5}Going back would fix nothing\.\n$/);
});

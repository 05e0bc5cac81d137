import { TRIGGERS } from "@holdfast/core/checkpoint";
import { expect, test } from "vitest";
import { decodeTrigger, isSeedTrigger, labelWord, phaseWord, stageOfDocument, triggerWord } from "./crunch-words.ts";

const SEED =
  "phase_transition batch_complete agent_complete conflict_start conflict_resolved user_interrupt session_end manual";

test("every trigger is written with a name of the seed, and every name of the seed is read", () => {
  const words = SEED.split(" ");
  for (const trigger of TRIGGERS) expect(words).toContain(triggerWord(trigger));
  for (const word of words) expect(triggerWord(decodeTrigger(word) ?? "automatic")).toBe(word);
  expect(TRIGGERS.filter((trigger) => !isSeedTrigger(trigger))).toEqual(
    "automatic artifact_complete before_risky before_external error_recovery timer before_restore".split(" "),
  );
  expect(decodeTrigger("batch_start")).toBe("before_risky");
  expect(decodeTrigger("moon")).toBeUndefined();
});

test.each([
  ["input", "enrich", "state:input"],
  ["backlog", "enrich", "state:backlog"],
  ["enrich", "enrich", "state:enrich"],
  ["ready", "ready", "state:ready"],
  ["implementing", "implementing", "state:implementing"],
  ["e2e", "validation", "state:e2e"],
  ["docs", "docs", "state:docs"],
  ["ready-to-merge", "docs", "state:ready-to-merge"],
  ["done", "docs", "state:done"],
])("the stage %s is written as phase %s with the label %s, and read again", (stage, phase, label) => {
  expect([phaseWord(stage), labelWord(stage)]).toEqual([phase, label]);
  expect(stageOfDocument(phase, label)).toBe(stage);
});

test.each([
  ["validation", "state:validation", "e2e"],
  ["e2e", "state:e2e", "e2e"],
  ["docs", null, "docs"],
  ["docs", "state:blocked", "docs"],
  // A label that contradicts the phase does not count.
  ["enrich", "state:done", "enrich"],
  ["ready", "state:__proto__", "ready"],
])("a document at %s with the label %s is at %s", (phase, label, stage) => {
  expect(stageOfDocument(phase, label)).toBe(stage);
});

test("a stage of another workflow is written as work on the issue", () => {
  for (const stage of ["impl", "review", "none", "", "constructor"])
    expect([phaseWord(stage), labelWord(stage)]).toEqual(["implementing", "state:implementing"]);
});

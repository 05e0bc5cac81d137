import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { time, word } from "@holdfast/test-support/formats/arbitrary-checkpoint";
import {
  type CheckpointPathParams,
  PUBLISHED_LOOP_ID,
  checkpointDirectory,
  checkpointPath,
  isUsableLoopId,
  loopKind,
  parseLoopPath,
} from "./loop-document.ts";

const placed: CheckpointPathParams = {
  loopId: "ralph-fix-tests-a1b2c3d4",
  workflowId: "ralph-research-impl",
  iteration: 5,
  createdAt: "2026-01-25T15:00:00.000Z",
  trigger: "iteration",
  compression: "gzip",
};

describe("the path of a checkpoint", () => {
  test("the format's own examples", () => {
    expect(checkpointPath(placed)).toBe(".aiwg/ralph/loops/ralph-fix-tests-a1b2c3d4/checkpoints/iteration-005.json.gz");
    expect(checkpointPath({ ...placed, loopId: null })).toBe(
      ".aiwg/checkpoints/ralph-research-impl-2026-01-25T15-00-00Z-iteration.json.gz",
    );
  });

  test("numbers are padded and never cut", () => {
    expect(checkpointPath({ ...placed, iteration: 1234 })).toContain("/iteration-1234.json.gz");
  });

  test("a workflow id cannot lead out of the directory", () => {
    expect(checkpointPath({ ...placed, loopId: null, workflowId: "../../etc/x y" })).toBe(
      ".aiwg/checkpoints/..-..-etc-x-y-2026-01-25T15-00-00Z-iteration.json.gz",
    );
  });

  test.each([
    [null, "ralph_loop", "single_loop", ".aiwg/checkpoints/"],
    [null, "flow_command", "no_loop", ".aiwg/checkpoints/"],
    [null, null, "no_loop", ".aiwg/checkpoints/"],
    ["l", "ralph_loop", "multi_loop", ".aiwg/ralph/loops/l/checkpoints/"],
    ["l", null, "multi_loop", ".aiwg/ralph/loops/l/checkpoints/"],
  ])("loop %s of %s is %s", (loopId, workflowType, kind, directory) => {
    expect(loopKind({ loopId, workflowType })).toBe(kind);
    expect(checkpointDirectory(loopId)).toBe(directory);
  });
});

describe("a path", () => {
  test("that was generated is parsed back", () => {
    const places = fc.record({
      loopId: fc.option(word.filter(isUsableLoopId)),
      workflowId: word,
      iteration: fc.nat(99_999),
      createdAt: time,
      trigger: fc.constantFrom("manual", "pre_risky_op"),
      compression: fc.constantFrom("none", "gzip"),
    });
    fc.assert(
      fc.property(places, fc.constantFrom("", "/home/a/", "C:\\work\\"), (one, root) => {
        const { loopId, iteration, compression, workflowId, trigger } = one;
        expect(parseLoopPath(`${root}${checkpointPath(one)}`)).toMatchObject(
          loopId === null
            ? { kind: "legacy", workflowId, trigger, compression }
            : { kind: "multi_loop", loopId, iteration, compression },
        );
      }),
    );
  });

  test.each([
    [".aiwg/ralph/loops/l/checkpoints/checkpoint-5-1769353200000.json.gz", 5],
    [".aiwg/ralph/loops/l/checkpoints/checkpoint-1.json.gz", 1],
    ["x\\.aiwg\\ralph\\loops\\l\\checkpoints\\iteration-007.json", 7],
  ])("%s is accepted, although no rule generates it", (path, iteration) => {
    expect(parseLoopPath(path)).toMatchObject({ kind: "multi_loop", loopId: "l", iteration });
  });

  test.each([
    "iteration-005.json.gz",
    ".aiwg/ralph/loops/../checkpoints/iteration-005.json",
    ".aiwg/ralph/loops/l/checkpoints/iteration-x.json",
    ".aiwg/checkpoints/manifest.json",
    "",
  ])("%j is not a checkpoint path", (path) => {
    expect(parseLoopPath(path)).toBeNull();
  });
});

test.each([
  ["ralph-fix-tests-a1b2c3d4", true, true],
  ["ralph-add-e5f6g7h8", false, true],
  ["ralph-test-coverage-2026-01-25", false, true],
  ["ralph-fix-mlek65l8kmab", false, true],
  ["ralph--2aee878f", false, true],
  ["0b0e7a52-9d1c-4f0e-8a53-0c9a4d2c7f11", false, true],
  ["..", false, false],
  ["a/b", false, false],
  ["a\\b", false, false],
  ["-rf", false, false],
  ["con.", false, false],
  ["", false, false],
  ["ü", false, false],
])("%j: published %s, usable %s", (id, published, usable) => {
  expect(PUBLISHED_LOOP_ID.test(id)).toBe(published);
  expect(isUsableLoopId(id)).toBe(usable);
});

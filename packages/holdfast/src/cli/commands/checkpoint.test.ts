import { expect, test } from "vitest";
import { type FilesPlane, type Planes, emptyPlanes } from "@holdfast/core/checkpoint";
import { PAGE, sampleSummary } from "@holdfast/test-support/sample-run";
import { savedText } from "./checkpoint.ts";

const files: FilesPlane = {
  tree: "a",
  snapshot: "b",
  ref: "refs/holdfast/fix-login/7",
  worktree: "/w",
  head: null,
  branch: null,
  base: null,
  artifacts: [],
  artifactCount: 0,
  skipped: [],
  nested: [],
  index: null,
  operation: null,
};
const saved = (planes: Planes) =>
  savedText(
    {
      checkpoint: sampleSummary(),
      planes,
      started: false,
      leftOut: [],
      unfinishedRestore: null,
      savedBy: null,
      noWorktree: false,
    },
    PAGE,
  );

test("state is mentioned only if there is some", () => {
  const empty = emptyPlanes({ workflow: "manual" });
  expect(saved({ ...empty, files })).toBe("Saved fix-login@7 (files; 512 B added to the store)\n");
  expect(saved({ ...empty, files, context: { values: { step: 3 }, tokens: {} } })).toContain("(files and state; ");
  expect(saved(emptyPlanes({ stage: "review" }))).toContain("(state only; ");
});

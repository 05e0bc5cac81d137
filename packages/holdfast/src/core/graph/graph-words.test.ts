import { expect, test } from "vitest";
import { sampleNode } from "./graph-sample.ts";
import { graphMoveText } from "./graph-words.ts";
import type { Json } from "../json.ts";

const at = "2026-01-01T00:00:00Z";

test.each<[Json, string]>([
  [{ kind: "complete", node: "build", at, result: null }, "build complete"],
  [{ kind: "fail", node: "docs", at, error: "no such file" }, "docs fail (no such file)"],
  [{ kind: "fail", node: "docs", at, error: { code: 1 } }, "docs fail"],
  [{ kind: "skip", node: "docs", at, reason: "not wanted" }, "docs skip (not wanted)"],
  [{ kind: "approve", from: "a", to: "b", at }, "a → b approve"],
  [{ kind: "add", definition: { ...sampleNode("late") }, edges: [], at }, "late add"],
  [{ kind: "replay", at }, "replay"],
  ["nonsense", ""],
])("%j reads %j", (event, said) => {
  expect(graphMoveText(event)).toBe(said);
});

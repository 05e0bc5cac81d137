import { expect, test } from "vitest";
import { qwenArgs } from "./argv.ts";

const ALWAYS = "--output-format stream-json --include-partial-messages --approval-mode";

test("a new session that may do all", () => {
  const task = { model: "qwen3-coder-plus", yolo: true, session: null };
  expect(qwenArgs({ task, session: "11", extra: [] }).join(" ")).toBe(
    `${ALWAYS} yolo --model qwen3-coder-plus --session-id 11`,
  );
});

test("one to go on with, that may edit files and nothing else", () => {
  const task = { model: null, yolo: false, session: "11" };
  expect(qwenArgs({ task, session: "11", extra: [] }).join(" ")).toBe(`${ALWAYS} auto-edit --resume 11`);
});

import { expect, test } from "vitest";
import { geminiArgs } from "./argv.ts";

test("a new session, as it may act", () => {
  const task = { model: "gemini-2.5-pro", yolo: true, session: null };
  expect(geminiArgs({ task, session: "11", extra: [] }).join(" ")).toBe(
    "--output-format stream-json --skip-trust --yolo --model gemini-2.5-pro --session-id 11",
  );
});

test("one to go on with, that may edit files and nothing else", () => {
  const task = { model: null, yolo: false, session: "11" };
  expect(geminiArgs({ task, session: "11", extra: [] }).join(" ")).toBe(
    "--output-format stream-json --skip-trust --approval-mode auto_edit --resume 11",
  );
});

import { expect, test } from "vitest";
import { copilotArgs } from "./argv.ts";

test("a new session that may do all", () => {
  const task = { model: "gpt-5", yolo: true, session: null };
  expect(copilotArgs({ task, session: "11", extra: [] }).join(" ")).toBe(
    "--output-format=json --no-auto-update --yolo --model=gpt-5 --session-id=11",
  );
});

test("one to go on with, that may edit files and nothing else", () => {
  const task = { model: null, yolo: false, session: "11" };
  expect(copilotArgs({ task, session: "11", extra: [] }).join(" ")).toBe(
    "--output-format=json --no-auto-update --allow-tool=write --resume=11",
  );
});

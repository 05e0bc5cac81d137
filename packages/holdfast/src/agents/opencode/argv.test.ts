import { expect, test } from "vitest";
import { opencodeArgs, opencodeEnv } from "./argv.ts";

test("a new session that may do all", () => {
  const task = { cwd: "/w", model: "anthropic/claude-opus-4", yolo: true, session: null, role: "impl" };
  expect(opencodeArgs({ task, extra: [] }).join(" ")).toBe(
    "run --print-logs --log-level ERROR --format json --dir /w --title impl --auto --model anthropic/claude-opus-4",
  );
  expect(opencodeEnv({ task, env: {} })).toEqual({ PWD: "/w" });
});

test("one to go on with, that may edit files and nothing else, unless somebody has said what it may", () => {
  const task = { cwd: "/w", model: null, yolo: false, session: "ses_1", role: "review" };
  expect(opencodeArgs({ task, extra: [] }).join(" ")).toBe(
    "run --print-logs --log-level ERROR --format json --dir /w --title review --session ses_1",
  );
  expect(opencodeEnv({ task, env: {} })["OPENCODE_PERMISSION"]).toContain('"bash":"ask"');
  expect(opencodeEnv({ task, env: { OPENCODE_PERMISSION: "{}" } })).toEqual({ PWD: "/w" });
});

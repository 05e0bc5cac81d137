import { expect, test } from "vitest";
import { transcriptPlace } from "./transcript-place.ts";

const at = (env: Record<string, string>) => transcriptPlace({ session: "s1", cwd: "/w/a.b_c", env });

test("one file a session, in a folder named like the worktree", () => {
  expect(at({ HOME: "/h" })).toBe("/h/.qwen/projects/-w-a-b-c/chats/s1.jsonl");
  expect(at({ HOME: "/h", QWEN_HOME: "/q" })).toBe("/q/projects/-w-a-b-c/chats/s1.jsonl");
  expect(at({ QWEN_HOME: "/q", QWEN_RUNTIME_DIR: "/r" })).toBe("/r/projects/-w-a-b-c/chats/s1.jsonl");
});

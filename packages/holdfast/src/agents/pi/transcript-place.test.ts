import { expect, test } from "vitest";
import { nameOf, transcriptPlace } from "./transcript-place.ts";

test("a folder for each worktree, a file for each session", () => {
  const place = transcriptPlace({ session: "s1", cwd: "/work/a b", env: { HOME: "/h" } });
  expect(place).toEqual({ folder: "/h/.pi/agent/sessions/--work-a b--", ending: "_s1.jsonl" });
  expect(nameOf(place, "2026-11-15T10:20:48.936Z")).toBe("2026-11-15T10-20-48-936Z_s1.jsonl");
});

test("places of one's own", () => {
  const at = (env: Record<string, string>) =>
    transcriptPlace({ session: "s1", cwd: "/w", env: { HOME: "/h", ...env } }).folder;
  expect(at({ PI_CODING_AGENT_DIR: "~/p" })).toBe("/h/p/sessions/--w--");
  expect(at({ PI_CODING_AGENT_SESSION_DIR: "/s" })).toBe("/s");
});

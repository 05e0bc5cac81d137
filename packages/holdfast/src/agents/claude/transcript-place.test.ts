import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "../../testing/store-contract/scratch-directory.ts";
import { findTranscript, measureTranscripts, readAdded } from "./find-transcripts.ts";
import { transcriptPlace } from "./transcript-place.ts";

const CALL = { session: "0b54", cwd: "/home/me/my_project.x" };

test("under the home directory, or where CLAUDE_CONFIG_DIR says", () => {
  expect(transcriptPlace({ ...CALL, env: { HOME: "/home/me" } }).file).toBe(
    "/home/me/.claude/projects/-home-me-my-project-x/0b54.jsonl",
  );
  const env = { HOME: "/home/me", CLAUDE_CONFIG_DIR: "/config" };
  expect(transcriptPlace({ ...CALL, env }).file).toBe("/config/projects/-home-me-my-project-x/0b54.jsonl");
});

test("a session that was begun in another directory is found", () => {
  const env = { CLAUDE_CONFIG_DIR: scratchDirectory(onTestFinished) };
  const place = transcriptPlace({ ...CALL, env });
  expect(findTranscript(place)).toBe(null);
  const { file } = transcriptPlace({ ...CALL, cwd: "/elsewhere", env });
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, "");
  expect(findTranscript(place)).toBe(file);
});

test("what a call adds to its own file and to those of its subagents is told from what was there", () => {
  const place = transcriptPlace({ ...CALL, env: { CLAUDE_CONFIG_DIR: scratchDirectory(onTestFinished) } });
  expect(readAdded(place, measureTranscripts(place))).toEqual([]);
  const subagents = join(dirname(place.file), CALL.session, "subagents");
  mkdirSync(subagents, { recursive: true });
  writeFileSync(place.file, "é\n");
  writeFileSync(join(subagents, "agent-1.jsonl"), "one\n");
  const before = measureTranscripts(place);
  writeFileSync(place.file, "é\nü\n");
  writeFileSync(join(subagents, "agent-2.jsonl"), "two\n");
  writeFileSync(join(subagents, "agent-2.meta.json"), "{}");
  expect(readAdded(place, before)).toEqual(["ü\n", "", "two\n"]);
});

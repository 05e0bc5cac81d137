import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { readSessionFile, writeSessionFile } from "./session-files.ts";

const SECRET = `ghp_${"aB3dE5gH7jK9".repeat(3)}`;

test("the copy of a session file is masked, the agent's own file keeps its bytes", () => {
  const folder = scratchDirectory(onTestFinished);
  const path = join(folder, "session.jsonl");
  const text = `${JSON.stringify({ role: "user", text: `use ${SECRET}` })}\n`;
  writeFileSync(path, text);
  const copy = readSessionFile({ path, title: "An agent" });
  expect(copy).toContain('"role":"user"');
  expect(copy).not.toContain(SECRET);
  expect(readFileSync(path, "utf8")).toBe(text);
});

test("a session file that Holdfast puts back can be read by its owner only", () => {
  const folder = scratchDirectory(onTestFinished);
  mkdirSync(join(folder, "there"));
  for (const path of [join(folder, "there/a.jsonl"), join(folder, "new/deep/b.jsonl")]) {
    writeSessionFile({ path, text: "{}\n" });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readFileSync(path, "utf8")).toBe("{}\n");
  }
  expect(statSync(join(folder, "new")).mode & 0o777).toBe(0o700);
});

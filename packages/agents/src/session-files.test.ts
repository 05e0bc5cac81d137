import { mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join, sep } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { systemClock } from "@holdfast/platform/clock";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { createAgentRegistry } from "./registry.ts";
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

test("only the owner can read a session file that Holdfast restores", () => {
  const folder = scratchDirectory(onTestFinished);
  mkdirSync(join(folder, "there"));
  for (const path of [join(folder, "there/a.jsonl"), join(folder, "new/deep/b.jsonl")]) {
    writeSessionFile({ path, text: "{}\n" });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readFileSync(path, "utf8")).toBe("{}\n");
  }
  expect(statSync(join(folder, "new")).mode & 0o777).toBe(0o700);
});

const { agent, names } = createAgentRegistry({ clock: systemClock, directory: "/" });
const RECORDING = names.filter((name) => agent(name).sessions !== null);

test.each(RECORDING)("%s never builds a path from an id that is not a session id", async (name) => {
  const folder = scratchDirectory(onTestFinished);
  const home = join(folder, "a/b/c/home");
  mkdirSync(home, { recursive: true });
  vi.stubEnv("HOME", home);
  onTestFinished(() => void vi.unstubAllEnvs());
  const { sessions } = agent(name);
  const text = '{"timestamp":"../../../..","startTime":"../../../../x"}\n';
  for (const session of ["../../../../../../x", "/x", "..", "--yolo", "a/b", "a\0b", "", "x".repeat(200)]) {
    await expect(sessions?.write({ session, cwd: home, text })).rejects.toThrow("is not a session id");
    expect(await sessions?.read({ session, cwd: home })).toBeNull();
  }
  expect(readdirSync(folder, { recursive: true })).toHaveLength(4);
  // The times in a record become a part of the name; they must not leave the agent's own folder either.
  await sessions?.write({ session: "a1b2c3d4", cwd: home, text });
  const made = readdirSync(folder, { recursive: true, withFileTypes: true }).filter(
    // Gemini CLI finds a project by this file.
    (entry) => entry.isFile() && entry.name !== ".project_root",
  );
  expect(made.length).toBeGreaterThan(0);
  for (const { parentPath, name: file } of made) {
    expect(parentPath + sep).toMatch(new RegExp(`^${home}/\\.\\w+/.*(?:sessions?|chats|projects|session-state)/`));
    expect(file).toMatch(/^[\w.-]+$/);
  }
});

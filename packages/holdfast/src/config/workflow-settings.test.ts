import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { defaultCrunchSettings } from "@holdfast/workflows/crunch/default-settings";
import { CRUNCH_DIRECTORY } from "@holdfast/workflows/crunch/settings";
import { crunchTemplate } from "@holdfast/workflows/crunch/settings-files";
import { PROMPT_DIRECTORY, findPromptFiles, loadCrunch, promptConsents, readPrompts } from "./workflow-settings.ts";

let root = "";

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "crunch-"));
});

afterEach(async () => {
  await rm(root, { recursive: true, force: true });
});

async function put(path: string, text: string): Promise<void> {
  const file = join(root, CRUNCH_DIRECTORY, path);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
}

test("without the folder, and with all its files, the defaults", async () => {
  expect(await loadCrunch(root)).toEqual(defaultCrunchSettings);
  for (const file of crunchTemplate(defaultCrunchSettings)) await put(file.path, file.text);
  await put("notes.txt", "not for Holdfast");
  expect(await loadCrunch(root)).toEqual(defaultCrunchSettings);
});

test("each file is optional", async () => {
  await put("veto.yaml", "reviewer: HIGH\n");
  expect(await loadCrunch(root)).toEqual({
    ...defaultCrunchSettings,
    veto: { ...defaultCrunchSettings.veto, reviewer: "HIGH" },
  });
});

test("an error is reported with its file and line, and all of them are in the data", async () => {
  await put("weights.yaml", "margin: 0.1\nmaxRounds: 9\n");
  await put("graphs/docs.yaml", "nodes: 1\n");
  await expect(loadCrunch(root)).rejects.toMatchObject({
    code: "CONFIG_INVALID",
    message: ".holdfast/crunch/weights.yaml:2:12: maxRounds: expected 1, 2 or 3 (and 1 more)",
    data: { problems: [{ path: "weights.yaml" }, { path: "graphs/docs.yaml", line: 1 }] },
  });
});

test.each(["agent.yaml", "graphs/enrichment.yml"])("an unused file is reported: %s", async (path) => {
  await put(path, "agents: {}\n");
  await expect(loadCrunch(root)).rejects.toMatchObject({
    code: "CONFIG_INVALID",
    message: expect.stringContaining(`${path}:1:1: nothing reads this file`),
  });
});

test("a link at the path of a file is not followed", async () => {
  await put("team.yaml", "");
  await symlink("/etc/passwd", join(root, CRUNCH_DIRECTORY, "veto.yaml"));
  await expect(loadCrunch(root)).rejects.toMatchObject({ code: "IO_FAILED" });
});

test("a user's template takes precedence over a setting, and that over the repository's, which needs consent", async () => {
  const home = join(root, "home");
  const env = { HOME: home };
  const write = async (path: string, text: string): Promise<string> => {
    const file = join(root, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, text);
    return file;
  };
  const text = (word: string): string => `${word} {{marker}} {{finalize_file}}`;
  const setting = await write("named.md", text("setting"));
  const read = async (named: Readonly<Record<string, string | null>> = {}) =>
    (await readPrompts("impl", findPromptFiles({ cwd: root, env }), named))["continue"];
  expect(await read()).toBeUndefined();
  const ours = await write(`${PROMPT_DIRECTORY}/impl/continue.md`, text("repository"));
  expect(await read()).toEqual({ from: "repository", path: ours, text: text("repository") });
  expect(await promptConsents({ cwd: root, env })).toMatchObject([
    { key: `${PROMPT_DIRECTORY}/impl/continue.md`, danger: "prompt", uses: ["impl"] },
  ]);
  expect(await read({ continue: setting })).toMatchObject({ from: "setting" });
  await write("home/.config/holdfast/prompts/impl/continue.md", text("user"));
  expect(await read({ continue: setting })).toMatchObject({ from: "user", text: text("user") });
  expect(await promptConsents({ cwd: root, env })).toEqual([]);
});

test("a template that lacks a placeholder, and a file that is not a prompt, are refused by name", async () => {
  const directory = join(root, PROMPT_DIRECTORY, "ralph");
  await mkdir(directory, { recursive: true });
  const read = async () => readPrompts("ralph", findPromptFiles({ cwd: root, env: { HOME: root } }), {});
  await writeFile(join(directory, "iterate.md"), "Do {{task_section}}, {{quickly}}.");
  await expect(read()).rejects.toMatchObject({
    code: "CONFIG_INVALID",
    message: expect.stringContaining(join(directory, "iterate.md")),
    data: { missing: expect.arrayContaining(["criterion_section"]), unknown: ["quickly"] },
  });
  await rm(join(directory, "iterate.md"));
  await writeFile(join(directory, "iterate.txt"), "x");
  await expect(read()).rejects.toMatchObject({ code: "CONFIG_INVALID", hint: expect.stringContaining("iterate.md") });
});

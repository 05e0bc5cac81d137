import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { defaultCrunchSettings } from "@holdfast/workflows/crunch/default-settings";
import { CRUNCH_DIRECTORY } from "@holdfast/workflows/crunch/settings";
import { crunchTemplate } from "@holdfast/workflows/crunch/settings-files";
import { loadCrunch } from "./workflow-settings.ts";

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

test("without the folder, and with all that it may hold, the defaults", async () => {
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

test("what is wrong is told with its file and line, and all of it is in the data", async () => {
  await put("weights.yaml", "margin: 0.1\nmaxRounds: 9\n");
  await put("graphs/docs.yaml", "nodes: 1\n");
  await expect(loadCrunch(root)).rejects.toMatchObject({
    code: "CONFIG_INVALID",
    message: ".holdfast/crunch/weights.yaml:2:12: maxRounds: expected 1, 2 or 3 (and 1 more)",
    data: { problems: [{ path: "weights.yaml" }, { path: "graphs/docs.yaml", line: 1 }] },
  });
});

test.each(["agent.yaml", "graphs/enrichment.yml"])("a file that nothing reads is told: %s", async (path) => {
  await put(path, "agents: {}\n");
  await expect(loadCrunch(root)).rejects.toMatchObject({
    code: "CONFIG_INVALID",
    message: expect.stringContaining(`${path}:1:1: nothing reads this file`),
  });
});

test("a link in a file's place is not followed", async () => {
  await put("team.yaml", "");
  await symlink("/etc/passwd", join(root, CRUNCH_DIRECTORY, "veto.yaml"));
  await expect(loadCrunch(root)).rejects.toMatchObject({ code: "IO_FAILED" });
});

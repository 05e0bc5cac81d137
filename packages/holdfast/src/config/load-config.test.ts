import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { CONFIG_FILE, findConfig, findRepositoryRoot, loadConfig } from "./load-config.ts";

let directory: string;
beforeEach(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), "holdfast-config-")));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const load = (cwd: string) => loadConfig({ cwd, env: {}, storeFlag: undefined, allows: () => true });

test("found upwards, up to the root of the repository and no further", async () => {
  const repository = join(directory, "repo");
  const deep = join(repository, "a/b");
  await mkdir(deep, { recursive: true });
  await mkdir(join(repository, ".git"));
  await writeFile(join(directory, CONFIG_FILE), "gc: { auto: false }\n");
  expect(findConfig(deep)).toBeNull();
  await writeFile(join(repository, CONFIG_FILE), "store: ../s\n");
  expect(findConfig(deep)).toBe(join(repository, CONFIG_FILE));
  expect(findRepositoryRoot(deep)).toBe(repository);
  const loaded = await load(deep);
  expect(loaded.ok && loaded.config.settings.store).toBe(join(directory, "s"));
});

test("outside a repository a file of a parent directory is ignored", async () => {
  const inner = join(directory, "inner");
  await mkdir(inner);
  await writeFile(join(directory, CONFIG_FILE), "gc: { auto: false }\n");
  expect(findConfig(inner)).toBeNull();
  expect(findConfig(directory)).toBe(join(directory, CONFIG_FILE));
});

test("an invalid file is a value, an unreadable one an error", async () => {
  await writeFile(join(directory, CONFIG_FILE), "gcc: 1\n");
  expect(await load(directory)).toMatchObject({
    ok: false,
    path: join(directory, CONFIG_FILE),
    problems: [{ line: 1 }],
  });
  await rm(join(directory, CONFIG_FILE));
  await mkdir(join(directory, CONFIG_FILE));
  await expect(load(directory)).rejects.toMatchObject({ code: "IO_FAILED" });
  await rm(join(directory, CONFIG_FILE), { recursive: true });
  await symlink("/etc/passwd", join(directory, CONFIG_FILE));
  await expect(load(directory)).rejects.toMatchObject({ code: "IO_FAILED" });
});

import { mkdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { type BuiltCommand, buildCommand } from "@holdfast/test-support/built-command";
import { AGE_RULE, DONE_RULE, RETENTION_EXCEPTIONS, configTemplate } from "../../config/config-template.ts";
import { mergeConfig } from "../../config/effective-config.ts";
import { spec as gcSpec } from "./gc.ts";
import { commandText } from "./help.ts";

let holdfast: BuiltCommand;
let root: string;
beforeAll(async () => {
  holdfast = await buildCommand();
  await mkdir(join(holdfast.directory, "repo/.git"), { recursive: true });
  await mkdir(join(holdfast.directory, "repo/src"));
  root = await realpath(join(holdfast.directory, "repo"));
}, 60_000);
afterAll(() => holdfast.remove());

test("setup --defaults writes the explained defaults once, at the root", async () => {
  const cwd = join(root, "src");
  const path = join(root, "holdfast.config.yaml");
  const dry = await holdfast.run(["setup", "--defaults", "--dry-run"], { cwd });
  expect(dry.status).toBe(0);
  await expect(readFile(path)).rejects.toThrow("ENOENT");
  expect(await holdfast.run(["config", "--path"], { cwd })).toMatchObject({ status: 3, stdout: "" });

  expect(await holdfast.run(["setup", "--defaults"], { cwd })).toMatchObject({ status: 0, stdout: `Wrote ${path}\n` });
  expect(await readFile(path, "utf8")).toBe(dry.stdout);
  await writeFile(path, "gc: { auto: false }\n");
  expect(await holdfast.run(["setup", "--defaults"], { cwd })).toMatchObject({
    status: 0,
    stdout: `${path} exists; nothing was changed.\n`,
  });
  expect(JSON.parse((await holdfast.run(["setup", "--defaults", "--json"], { cwd })).stdout)).toMatchObject({
    path,
    written: false,
  });
  expect(await readFile(path, "utf8")).toBe("gc: { auto: false }\n");
  expect(await holdfast.run(["config", "--path"], { cwd })).toMatchObject({ status: 0, stdout: `${path}\n` });

  const schemas = join(root, "node_modules/holdfast/schemas");
  await mkdir(schemas, { recursive: true });
  await writeFile(join(schemas, "config.schema.json"), "{}");
  const pointing = await holdfast.run(["setup", "--defaults", "--dry-run"], { cwd });
  expect(pointing.stdout).toBe(
    `# yaml-language-server: $schema=./node_modules/holdfast/schemas/config.schema.json\n${dry.stdout}`,
  );
});

test("config shows the origin of each value", async () => {
  await writeFile(
    join(root, "holdfast.config.yaml"),
    "# ours\nretention:\n  maxAge: 90d\n  keep: { stage: { keep: 2, per: stage } }\n",
  );
  const { stdout, stderr } = await holdfast.run(["config"], { cwd: root, env: { HOLDFAST_STORE: "/data/store" } });
  expect(stderr).toBe("");
  expect(stdout).toMatch(/^store +\/data\/store +HOLDFAST_STORE$/m);
  expect(stdout).toMatch(/^retention\.maxAge +90d +holdfast\.config\.yaml:3$/m);
  expect(stdout).toMatch(/^retention\.keep\.stage +2 per stage +holdfast\.config\.yaml:4$/m);
  expect(stdout).toMatch(/^gc\.auto +true +default$/m);
  for (const line of stdout.split("\n")) expect(line.length, line).toBeLessThanOrEqual(80);
  const flagged = await holdfast.run(["config", "--store", "here", "--json"], { cwd: root });
  expect(JSON.parse(flagged.stdout).settings[0]).toEqual({
    key: "store",
    value: join(root, "here"),
    origin: { kind: "flag", flag: "--store" },
  });
});

test("config --crunch prints files that can be used as they are, and the settings in effect", async () => {
  const { files, directory } = JSON.parse((await holdfast.run(["config", "--crunch", "--json"], { cwd: root })).stdout);
  expect(files.map((file: { path: string }) => file.path)).toContain("graphs/implementing.yaml");
  const { stdout } = await holdfast.run(["config", "--crunch"], { cwd: join(root, "src") });
  expect(stdout).toContain(`${directory}/veto.yaml`);
  expect(stdout).toMatch(/^security-analyst: CRITICAL$/m);
  await mkdir(join(root, directory), { recursive: true });
  await writeFile(join(root, directory, "veto.yaml"), "security-analyst: HIGH\n");
  expect((await holdfast.run(["config", "--crunch"], { cwd: root })).stdout).toMatch(/^security-analyst: HIGH$/m);
  await writeFile(join(root, directory, "veto.yaml"), "security-analist: HIGH\n");
  expect(await holdfast.run(["config", "--crunch"], { cwd: root })).toMatchObject({
    status: 2,
    stderr: expect.stringContaining(".holdfast/crunch/veto.yaml:1:"),
  });
});

test("config --prompts prints every template and its origin; a repository's is in effect with consent only", async () => {
  const show = async (env: Readonly<Record<string, string>> = {}) =>
    JSON.parse((await holdfast.run(["config", "--prompts", "--json"], { cwd: root, env })).stdout);
  const { prompts, directories } = await show();
  expect(prompts.map((one: { workflow: string; name: string }) => `${one.workflow}/${one.name}`)).toContain(
    "ralph/iterate",
  );
  expect(prompts[0]).toMatchObject({ workflow: "impl", name: "impl", from: "built-in", path: null });
  const path = join(root, directories.repository, "ralph/continue.md");
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, "Work quickly.\n");
  const ofLoop = async (env: Readonly<Record<string, string>> = {}) =>
    (await show(env)).prompts.find(
      (one: { workflow: string; name: string }) => one.workflow === "ralph" && one.name === "continue",
    );
  expect(await ofLoop({ HOLDFAST_TRUST: "" })).toMatchObject({ from: "built-in" });
  expect(await ofLoop({ HOLDFAST_TRUST: "1" })).toMatchObject({ from: "repository", path, text: "Work quickly.\n" });
});

test("config check refuses a prompt template that a run would refuse", async () => {
  const path = join(root, ".holdfast/prompts/impl/review.md");
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, "Review {{nonsense}} now.\n");
  onTestFinished(() => rm(path));
  expect(await holdfast.run(["config", "check"], { cwd: root })).toMatchObject({
    status: 2,
    stdout: "",
    stderr: expect.stringMatching(/^error: The prompt template .*review\.md [^]*nonsense[^]*\[CONFIG_INVALID\]/),
  });
});

test("config check shows each problem with its line; commands that need the config refuse with the first", async () => {
  await writeFile(join(root, "holdfast.config.yaml"), "retention:\n  maxAeg: 30d\n  recent: soon\n");
  const checked = await holdfast.run(["config", "check"], { cwd: root });
  expect(checked).toEqual({
    status: 2,
    stderr: "",
    stdout: `holdfast.config.yaml:2:3: unknown key "maxAeg" in retention
  2 |   maxAeg: 30d
    |   ^^^^^^
  Did you mean maxAge?

holdfast.config.yaml:3:11: retention.recent: expected a duration such as 7d
  3 |   recent: soon
    |           ^^^^

2 problems.
`,
  });
  const refused = await holdfast.run(["checkpoint"], { cwd: root });
  expect(refused).toEqual({
    status: 2,
    stdout: "",
    stderr: `error: holdfast.config.yaml:2:3: unknown key "maxAeg" in retention (and 1 more) [CONFIG_INVALID]
  2 |   maxAeg: 30d
    |   ^^^^^^
hint:  Did you mean maxAge?
`,
  });
  const document = JSON.parse((await holdfast.run(["config", "check", "--json"], { cwd: root })).stdout);
  expect(document).toMatchObject({
    ok: false,
    problems: [
      { line: 2, column: 3 },
      { line: 3, column: 11 },
    ],
  });
});

test("the text about what is never dropped is the same in gc --help, docs/config.md and the config template", async () => {
  const page = await readFile(new URL("../../../../../docs/config.md", import.meta.url), "utf8");
  const plain = (text: string) => text.replace(/\n\s*#?\s*/g, " ");
  const texts = { "gc --help": commandText(gcSpec), "docs/config.md": page, template: configTemplate() };
  for (const [name, text] of Object.entries(texts)) {
    for (const phrase of [...RETENTION_EXCEPTIONS, AGE_RULE, DONE_RULE])
      expect(plain(text).toLowerCase(), name).toContain(phrase.toLowerCase());
  }
});

test("docs/config.md explains every key", async () => {
  const page = await readFile(new URL("../../../../../docs/config.md", import.meta.url), "utf8");
  for (const { key } of mergeConfig({ file: null, env: {}, cwd: "/", storeFlag: undefined }).entries) {
    const named = key.startsWith("retention.keep.") ? "retention.keep" : key;
    expect(page).toContain(`\`${named}\``);
  }
  expect(page).toContain("`HOLDFAST_STORE`");
});

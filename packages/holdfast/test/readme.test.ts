import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

/** What the README shows is run, and must print what the README says. */

const root = join(import.meta.dirname, "../../..");
const readme = readFileSync(join(root, "README.md"), "utf8");
const folder = mkdtempSync(join(tmpdir(), "holdfast-readme-"));

beforeAll(() => {
  execFileSync(process.execPath, [join(root, "scripts/build.mjs")], { cwd: root, stdio: "pipe" });
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(join(root, "packages/holdfast"), join(folder, "node_modules/holdfast"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("the library example runs and prints what its last comment says", () => {
  const code = blockOf("ts");
  writeFileSync(join(folder, "example.mjs"), code);
  const printed = execFileSync(process.execPath, ["example.mjs"], { cwd: folder, encoding: "utf8" });
  expect(printed.trim()).toBe(/\/\/ (\{.*\})$/m.exec(code)?.[1]);
  expect(code.trim().split("\n").length).toBeLessThanOrEqual(8);
});

test("the workflow in docs/library.md runs and prints what its last comment says", () => {
  const page = readFileSync(join(root, "docs/library.md"), "utf8");
  const code = [...page.matchAll(/```ts\n([^]*?)```/g)]
    .map((match) => match[1])
    .find((text) => text?.includes("defineWorkflow"));
  writeFileSync(join(folder, "workflow.mjs"), code ?? "");
  const printed = execFileSync(process.execPath, ["workflow.mjs"], { cwd: folder, encoding: "utf8" });
  const last = /\/\/ (apollo .*)$/m.exec(code ?? "")?.[1];
  expect(printed.trim().split("\n")).toEqual(["2 to go", "1 to go", "lift-off", last]);
});

test("the graph in docs/library.md runs and prints what its last comment says", () => {
  const page = readFileSync(join(root, "docs/library.md"), "utf8");
  const code = [...page.matchAll(/```ts\n([^]*?)```/g)]
    .map((match) => match[1])
    .find((text) => text?.includes("runGraph("));
  writeFileSync(join(folder, "graph.mjs"), code ?? "");
  const printed = execFileSync(process.execPath, ["graph.mjs"], { cwd: folder, encoding: "utf8" });
  expect(printed.trim()).toBe(/\/\/ (\{ kind: 'done'.*)$/m.exec(code ?? "")?.[1]);
});

test("the demo prints the transcript", () => {
  const shown = blockOf("text");
  const seed = /npm run demo -- --seed (\d+)/.exec(readme)?.[1] ?? "";
  expect(shown).toContain(`(seed ${seed})`);
  const printed = execFileSync(process.execPath, [join(root, "examples/demo.mjs"), "--seed", seed], {
    encoding: "utf8",
    env: { ...process.env, NO_COLOR: "1" },
  });
  expect(printed.trim()).toBe(shown.trim());
});

test("every command in the README exists", () => {
  const known = new Set(
    run("--help")
      .match(/^ {2}([a-z]+) {2,}/gm)
      ?.map((line) => line.trim()),
  );
  const named = [...readme.matchAll(/npx holdfast ([a-z]+)/g)].map((match) => match[1]);
  expect(named.length).toBeGreaterThan(4);
  expect(named.filter((name) => name !== undefined && !known.has(name))).toEqual([]);
});

function blockOf(language: string): string {
  const block = new RegExp(`\`\`\`${language}\\n([^]*?)\`\`\``).exec(readme)?.[1];
  if (block === undefined) throw new Error(`README.md has no ${language} block`);
  return block;
}

function run(...args: readonly string[]): string {
  return execFileSync(process.execPath, [join(root, "packages/holdfast/bin/holdfast.cjs"), ...args], {
    encoding: "utf8",
  });
}

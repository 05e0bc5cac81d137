import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { installPackage } from "./installed-package.ts";

/** Executes the README's examples, which must print what the README shows. */

const root = join(import.meta.dirname, "../../..");
const readme = readFileSync(join(root, "README.md"), "utf8");
const folder = mkdtempSync(join(tmpdir(), "holdfast-readme-"));

let entry: string;

beforeAll(() => {
  entry = join(installPackage(folder), "bin/holdfast.cjs");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("the library example runs and prints what its last comment says", () => {
  const code = blockOf("ts");
  writeFileSync(join(folder, "example.mts"), code);
  const printed = execFileSync(process.execPath, ["example.mts"], { cwd: folder, encoding: "utf8" });
  expect(printed.trim()).toBe(/\/\/ (\{.*\})$/m.exec(code)?.[1]);
  expect(code.trim().split("\n").length).toBeLessThanOrEqual(8);
});

test("the workflow in docs/library.md runs and prints what its last comment says", () => {
  const page = readFileSync(join(root, "docs/library.md"), "utf8");
  const code = [...page.matchAll(/```ts\n([^]*?)```/g)]
    .map((match) => match[1])
    .find((text) => text?.includes("defineWorkflow"));
  writeFileSync(join(folder, "workflow.mts"), code ?? "");
  const printed = execFileSync(process.execPath, ["workflow.mts"], { cwd: folder, encoding: "utf8" });
  const last = /\/\/ (apollo .*)$/m.exec(code ?? "")?.[1];
  expect(printed.trim().split("\n")).toEqual(["2 to go", "1 to go", "lift-off", last]);
});

test("the graph in docs/library.md runs and prints what its last comment says", () => {
  const page = readFileSync(join(root, "docs/library.md"), "utf8");
  const code = [...page.matchAll(/```ts\n([^]*?)```/g)]
    .map((match) => match[1])
    .find((text) => text?.includes("runGraph("));
  writeFileSync(join(folder, "graph.mts"), code ?? "");
  const printed = execFileSync(process.execPath, ["graph.mts"], { cwd: folder, encoding: "utf8" });
  expect(printed.trim()).toBe(/\/\/ (\{ kind: 'done'.*)$/m.exec(code ?? "")?.[1]);
});

test("the workflow with an agent in docs/library.md runs and prints what its last comment says", () => {
  const page = readFileSync(join(root, "docs/library.md"), "utf8");
  const code = [...page.matchAll(/```ts\n([^]*?)```/g)]
    .map((match) => match[1])
    .find((text) => text?.includes("effect({"));
  const cwd = join(folder, "agent");
  mkdirSync(cwd);
  const author = ["-c", "user.name=A", "-c", "user.email=a@example.com"];
  execFileSync("git", ["init", "-q"], { cwd });
  execFileSync("git", [...author, "commit", "-q", "--allow-empty", "-m", "first"], { cwd });
  writeFileSync(join(cwd, "release.mts"), code ?? "");
  const printed = execFileSync(process.execPath, ["release.mts"], { cwd, encoding: "utf8" });
  const question = 'Publish "Saves are faster."?';
  expect(printed.trim().split("\n")).toEqual([question, /\/\/ (\{ kind: 'done'.*)$/m.exec(code ?? "")?.[1]]);
  expect(readFileSync(join(cwd, "published.txt"), "utf8")).toBe("Saves are faster.");
});

describe("the picture of the demo", () => {
  const shown = pictureText();

  test("is what the demo prints; scripts/draw-demo.mjs draws it", () => {
    const seed = /npm run demo -- --seed (\d+)/.exec(readme)?.[1] ?? "";
    expect(shown).toContain(`(seed ${seed})`);
    const printed = execFileSync(process.execPath, [entry, "demo", "--seed", seed], {
      encoding: "utf8",
      env: { ...process.env, NO_COLOR: "1" },
    });
    expect(shapeOf(printed)).toEqual(shapeOf(shown));
  });

  test("stays true when the journal has another entry", () => {
    const other = shown
      .replace("76 moments", "77 moments")
      .replace(
        "72 journal entries and 14 checkpoints, every digest\n",
        "73 journal entries and 15 checkpoints, every digest\n",
      )
      .replace(
        "killed in impl #1, while the agent was editing greet.js",
        "killed in impl #2, when\n    it was committed",
      )
      .replace(
        "    ✗ killed as review ended\n  pr         pr_pass\n",
        "  pr         pr_pass\n    ✗ killed as review ended\n",
      )
      .replace(/; 1 found already done\n +and adopted/, "");
    expect(other).not.toBe(shown);
    expect(shapeOf(other)).toEqual(shapeOf(shown));
  });

  test.each([
    ["a second pull request", "the forge's log has 1 creation", "the forge's log has 2 creations"],
    ["a claim that fails", "✓ nothing lost", "✗ nothing lost"],
    ["a kill that is missing", "  ✗ killed in review #2, as review ended\n", ""],
    ["another result", "tree 724054d18c20", "tree 824054d18c20"],
    ["another path through the stages", "review #2  review_pass", "review #2  review_fail"],
  ])("is not true with %s", (_, text, instead) => {
    const other = shown.replace(text, instead);
    expect(other).not.toBe(shown);
    expect(shapeOf(other)).not.toEqual(shapeOf(shown));
  });
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

/** The lines of docs/demo.svg below the command. */
function pictureText(): string {
  const rows = readFileSync(join(root, "docs/demo.svg"), "utf8").matchAll(/<text[^>]*>(.*)<\/text>/g);
  const lines = [...rows].map(([, row = ""]) =>
    row
      .replaceAll(/<[^>]*>/g, "")
      .replaceAll("&lt;", "<")
      .replaceAll("&amp;", "&"),
  );
  return `${lines.slice(2).join("\n")}\n`;
}

function blockOf(language: string): string {
  const block = new RegExp(`\`\`\`${language}\\n([^]*?)\`\`\``).exec(readme)?.[1];
  if (block === undefined) throw new Error(`README.md has no ${language} block`);
  return block;
}

function run(...args: readonly string[]): string {
  return execFileSync(process.execPath, [entry, ...args], { encoding: "utf8" });
}

/**
 * The lines of a transcript without what depends on the number of journal entries: how many moments, steps, entries and checkpoints there
 * are, and therefore at which moments a seed kills. How often it kills, the stages, their results and every claim of the proof remain.
 */
function shapeOf(transcript: string): readonly string[] {
  const lines = transcript
    .trim()
    // A long line continues on the next one, which has a deeper indent.
    .replaceAll(/^( *[✓✗] .*)\n {4,}(?![✓✗])/gm, "$1 ")
    .replaceAll(/\b\d+ (moments|steps|effects|journal entries|checkpoints)\b/g, "N $1")
    .replace(/; \d+ found already done and adopted/, "")
    .split("\n");
  const isKill = (line: string): boolean => /^ +✗ killed /.test(line);
  return [...lines.filter((line) => !isKill(line)), `${lines.filter(isKill).length} lines about kills`];
}

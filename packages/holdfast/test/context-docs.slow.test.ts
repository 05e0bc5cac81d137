import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { installPackage } from "./installed-package.ts";

/** The examples of docs/context.md, run against the built package. package.slow.test.ts checks their types. */

const root = join(import.meta.dirname, "../../..");
const page = readFileSync(join(root, "docs/context.md"), "utf8");
const blocks = [...page.matchAll(/```ts\n([^]*?)```/g)].map((match) => match[1] ?? "");
const folder = mkdtempSync(join(tmpdir(), "holdfast-context-docs-"));

beforeAll(() => {
  installPackage(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the examples print what their comments say", () => {
  test.each(blocks.map((code, index) => ({ name: `example ${index + 1}`, code })))("$name", ({ code }) => {
    const run = place(code);
    const printed = run();
    expect(printed).toEqual(announced(code));
    expect(code).toMatch(/assert|console/);
  });

  test("the first, started again, resumes from its last version", () => {
    const run = place(blocks[0] ?? "");
    expect([...run(), ...run()]).toEqual(["1 { page: 1 }", "2 { page: 2 }"]);
  });

  test("there are examples, the first of eight lines at most", () => {
    expect(blocks.length).toBeGreaterThanOrEqual(6);
    expect(blocks[0]?.trim().split("\n").length).toBeLessThanOrEqual(8);
  });
});

/**
 * Each example has its own directory and therefore its own store. Returns a function that runs it and returns the
 * printed lines.
 */
function place(code: string): () => readonly string[] {
  const directory = mkdtempSync(join(folder, "example-"));
  writeFileSync(join(directory, "example.mts"), code);
  return () =>
    execFileSync(process.execPath, ["example.mts"], { cwd: directory, encoding: "utf8" })
      .split("\n")
      .filter((line) => line !== "");
}

/** The text in a comment after a `console.log`, or in the comment lines below one that has none (or "prints:"). */
function announced(code: string): readonly string[] {
  const said: string[] = [];
  let waiting = false;
  for (const line of code.split("\n")) {
    const below = /^\s*\/\/ (.*)$/.exec(line)?.[1];
    const behind = /console\.log\(.*\);(?: \/\/ (.*))?$/.exec(line);
    if (behind !== null) {
      waiting = behind[1] === undefined || behind[1] === "prints:";
      if (!waiting && behind[1] !== undefined) said.push(behind[1]);
    } else if (waiting && below !== undefined) said.push(below);
    else waiting = false;
  }
  return said;
}

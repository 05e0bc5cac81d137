import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { installPackage } from "./installed-package.ts";

/** docs/context.md, run as it stands against the package as it is published; and what its types accept and refuse. */

const root = join(import.meta.dirname, "../../..");
const page = readFileSync(join(root, "docs/context.md"), "utf8");
const blocks = [...page.matchAll(/```ts\n([^]*?)```/g)].map((match) => match[1] ?? "");
const folder = mkdtempSync(join(tmpdir(), "holdfast-context-docs-"));

beforeAll(() => {
  installPackage(folder);
  symlinkSync(join(root, "node_modules/@types"), join(folder, "node_modules/@types"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the examples print what their comments say", () => {
  test.each(blocks.map((code, index) => ({ name: `example ${index + 1}`, code })))("$name", ({ code }) => {
    const run = place(code);
    const printed = run();
    expect(printed).toEqual(announced(code));
    expect(code).toMatch(/assert|console/);
  });

  test("the first, started again, goes on where it stopped", () => {
    const run = place(blocks[0] ?? "");
    expect([...run(), ...run()]).toEqual(["1 { page: 1 }", "2 { page: 2 }"]);
  });

  test("there are examples, the first of eight lines at most", () => {
    expect(blocks.length).toBeGreaterThanOrEqual(6);
    expect(blocks[0]?.trim().split("\n").length).toBeLessThanOrEqual(8);
  });
});

test("the declarations that are published carry the examples, and refuse what they must", () => {
  const types = readFileSync(join(import.meta.dirname, "types/context-types.ts"), "utf8");
  expect(types.match(/@ts-expect-error/g)?.length).toBeGreaterThan(15);
  for (const [index, code] of blocks.entries()) writeFileSync(join(folder, `typed-${index}.ts`), code);
  writeFileSync(join(folder, "types.ts"), types.replaceAll("../../src/library/index.ts", "holdfast/context"));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  const compilerOptions = {
    target: "es2024",
    lib: ["es2024", "esnext.disposable"],
    module: "nodenext",
    strict: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: true,
    noPropertyAccessFromIndexSignature: true,
    types: ["node"],
    noEmit: true,
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const compiled = spawnSync(process.execPath, [tsc, "-p", folder], { encoding: "utf8" });
  expect(compiled.stdout + compiled.stderr).toBe("");
  expect(compiled.status).toBe(0);
});

/** Each example has a directory of its own, and so a store of its own. Returns what runs it and gives the lines printed. */
function place(code: string): () => readonly string[] {
  const directory = mkdtempSync(join(folder, "example-"));
  writeFileSync(join(directory, "example.mts"), code);
  return () =>
    execFileSync(process.execPath, ["example.mts"], { cwd: directory, encoding: "utf8" })
      .split("\n")
      .filter((line) => line !== "");
}

/** What stands in a comment behind a `console.log`, or in comments of their own below one that has none (or "prints:"). */
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

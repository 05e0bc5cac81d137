import { execFile } from "node:child_process";
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

/** Rules that never fire protect nothing. Each is shown an offender in a copy of the tree's layout. */

const ROOT = join(import.meta.dirname, "../../..");
const SRC = "packages/holdfast/src";

interface Offence {
  readonly name: string;
  readonly file: string;
  readonly text: string;
  readonly rule: string;
  readonly says: string;
}

const imports = (file: string, target: string, says: string, how = "import { x }"): Offence => ({
  name: `${how === "import { x }" ? "" : `${how.split(" ").slice(0, 2).join(" ")}: `}${file} → ${target}`,
  file,
  text: how.startsWith("export")
    ? `${how} from "${target}";\n`
    : `${how} from "${target}";\nexport type Y = typeof x;\n`,
  rule: "eslint(no-restricted-imports)",
  says,
});

const OFFENCES: readonly Offence[] = [
  imports("core/a1.ts", "node:fs", "core is pure: no node: except crypto"),
  imports("core/a2.ts", "../ports/store.ts", "core imports core only"),
  imports("core/a3.ts", "../ports/store.ts", "core imports core only", "import type { x }"),
  imports("core/a4.ts", "../ports/store.ts", "core imports core only", "export { x }"),
  imports("core/values/a5.ts", "../../system/clock.ts", "core imports core only"),
  imports("core/a6.ts", "../app.ts", "core imports core only"),
  imports("ports/b1.ts", "../stores/sqlite/open.ts", "ports import core only"),
  imports("ports/b2.ts", "node:fs", "ports are contracts only"),
  imports("engine/c1.ts", "../stores/sqlite/open.ts", "the engine imports ports and core only"),
  imports("engine/deep/c2.ts", "../../stores/sqlite/open.ts", "the engine imports ports and core only"),
  imports("engine/c3.ts", "node:child_process", "the engine knows ports only"),
  imports("workflows/impl/d1.ts", "../../forges/github.ts", "workflows import the engine, ports and core only"),
  imports("system/e1.ts", "../stores/memory/open.ts", "system wraps Node; it imports core and ports only"),
  imports("stores/sqlite/f1.ts", "../../workspaces/git/open.ts", "adapters never import each other"),
  imports("stores/sqlite/f2.ts", "../memory/open.ts", "adapters never import each other"),
  imports("forges/f3.ts", "../agents/acp.ts", "adapters never import each other"),
  imports("workspaces/git/f4.ts", "../../engine/runner.ts", "adapters import ports, core and system only"),
  imports("formats/g1.ts", "../ports/store.ts", "formats import core only"),
  imports("formats/g2.ts", "node:zlib", "formats are pure codecs"),
  imports(
    "config/h1.ts",
    "../stores/sqlite/open.ts",
    "the config file speaks the language of app; it reaches no adapter",
  ),
  imports("cli/i1.ts", "../stores/sqlite/open.ts", "front ends talk to app; they hold no rules"),
  imports("cli/commands/list/i2.ts", "../../../workspaces/git/open.ts", "front ends talk to app; they hold no rules"),
  imports("web/i3.ts", "../engine/runner.ts", "front ends talk to app; they hold no rules"),
  imports("app.ts", "./cli/main.ts", "app does not know who talks to it"),
  imports("app/i4.ts", "../library/index.ts", "app does not know who talks to it"),
  imports("cli/i5.ts", "../library/index.ts", "front ends talk to app; they hold no rules"),
  imports(
    "library/i6.ts",
    "../workspaces/git/open.ts",
    "the library of contexts stands on app, a run handle and a store",
  ),
  imports("library/i7.ts", "node:fs", "the library of contexts reaches Node through app and system"),
  {
    name: "a built-in without node:, which the purity rules would not see",
    file: "core/j1.ts",
    text: `import { x } from "fs";\nexport type Y = typeof x;\n`,
    rule: "unicorn(prefer-node-protocol)",
    says: "node:",
  },
  {
    name: "a cycle",
    file: "core/k1.ts",
    text: `import { b } from "./k2.ts";\nexport const a = (): number => b() + 1;\n`,
    rule: "import(no-cycle)",
    says: "k2.ts",
  },
  {
    name: "any",
    file: "engine/l1.ts",
    text: "export const a = (b: any): unknown => b;\n",
    rule: "typescript(no-explicit-any)",
    says: "any",
  },
  {
    name: "a non-null assertion",
    file: "engine/l2.ts",
    text: "export const a = (b: string | null): string => b!;\n",
    rule: "typescript(no-non-null-assertion)",
    says: "!",
  },
  {
    name: "Date.now in core",
    file: "core/m1.ts",
    text: "export const a = (): number => Date.now();\n",
    rule: "eslint(no-restricted-properties)",
    says: "time is a parameter",
  },
  {
    name: "Math.random in core",
    file: "core/m2.ts",
    text: "export const a = (): number => Math.random();\n",
    rule: "eslint(no-restricted-properties)",
    says: "randomness is a parameter",
  },
  ...["process", "console", "setTimeout", "crypto", "fetch", "Buffer", "globalThis", "Promise"].map(
    (global): Offence => ({
      name: `the global ${global} in core`,
      file: `core/n-${global}.ts`,
      text: `export const a = (): unknown => ${global};\n`,
      rule: "eslint(no-restricted-globals)",
      says: global,
    }),
  ),
  {
    name: "console outside core",
    file: "engine/o1.ts",
    text: `export const a = (): void => console.log("x");\n`,
    rule: "eslint(no-console)",
    says: "console",
  },
];

/** What the rules must leave alone: one good citizen a folder, and tests, which may reach further. */
const GOOD: Readonly<Record<string, string>> = {
  "core/k2.ts": `import { a } from "./k1.ts";\nexport const b = (): number => a() + 1;\n`,
  "core/good.ts": `import { b } from "./values/index.ts";\nexport const a = (at: string): Date => new Date(b(at));\n`,
  "core/good.test.ts": `import { readFileSync } from "node:fs";\nexport const a = readFileSync;\n`,
  "ports/good.ts": `import type { Run } from "../core/run.ts";\nexport type A = Run;\n`,
  "engine/good.ts": `import type { Store } from "../ports/store.ts";\nimport { a } from "../core/good.ts";\nexport const b = (s: Store): unknown => [s, a];\n`,
  "workflows/good.ts": `import { run } from "../engine/runner.ts";\nexport const a = run;\n`,
  "system/good.ts": `import { readFileSync } from "node:fs";\nimport type { Clock } from "../ports/clock.ts";\nexport const a = (c: Clock): unknown => [c, readFileSync];\n`,
  "stores/sqlite/good.ts": `import { a } from "../../system/good.ts";\nimport { b } from "./rows/memory.ts";\nexport const c = [a, b];\n`,
  "formats/good.ts": `import { a } from "../core/good.ts";\nexport const b = a;\n`,
  "config/good.ts": `import type { OpenParams } from "../app.ts";\nexport type A = OpenParams;\n`,
  "library/good.ts": `import { a } from "../app.ts";\nimport { b } from "../engine/run-handle.ts";\nimport { c } from "../stores/memory/memory-store.ts";\nexport const d = [a, b, c];\n`,
  "cli/commands/web/good.ts": `import { a } from "../../../app.ts";\nimport { b } from "./web.ts";\nexport const c = [a, b];\n`,
};

interface Diagnostic {
  readonly code: string;
  readonly message: string;
  readonly help?: string;
  readonly note?: string;
  readonly filename: string;
}

let folder: string;
let diagnostics: readonly Diagnostic[];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "holdfast-lint-"));
  await copyFile(join(ROOT, ".oxlintrc.json"), join(folder, ".oxlintrc.json"));
  const files = [...OFFENCES.map(({ file, text }) => [file, text] as const), ...Object.entries(GOOD)];
  for (const [file, text] of files) {
    const path = join(folder, SRC, file);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  }
  diagnostics = await lint(folder);
});

afterAll(() => rm(folder, { recursive: true, force: true }));

describe("a rule fires on", () => {
  test.each(OFFENCES)("$name", ({ file, rule, says }) => {
    const found = diagnostics.filter((one) => one.filename === `${SRC}/${file}`);
    const fired = found.filter(
      (one) => one.code === rule && `${one.message} ${one.help ?? ""} ${one.note ?? ""}`.includes(says),
    );
    expect(fired, JSON.stringify(found)).not.toEqual([]);
  });
});

describe("no rule fires on", () => {
  test.each(Object.keys(GOOD).filter((file) => file !== "core/k2.ts"))("%s", (file) => {
    expect(diagnostics.filter((one) => one.filename === `${SRC}/${file}`)).toEqual([]);
  });
});

async function lint(cwd: string): Promise<readonly Diagnostic[]> {
  const oxlint = join(ROOT, "node_modules/.bin/oxlint");
  const output = await new Promise<string>((resolve, reject) => {
    execFile(oxlint, ["--format", "json"], { cwd, maxBuffer: 1e8 }, (error, stdout) => {
      // Findings make it end with 1; anything else is not an answer.
      if (error !== null && error.code !== 1) reject(error);
      else resolve(stdout);
    });
  });
  const parsed: unknown = JSON.parse(output);
  if (typeof parsed === "object" && parsed !== null && "diagnostics" in parsed && Array.isArray(parsed.diagnostics)) {
    return parsed.diagnostics as readonly Diagnostic[];
  }
  throw new Error(`oxlint answered ${output.slice(0, 200)}`);
}

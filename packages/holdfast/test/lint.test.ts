import { execFile } from "node:child_process";
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

/** Rules that never fire protect nothing. Each is shown an offender in a copy of the tree's layout. */

const ROOT = join(import.meta.dirname, "../../..");
const SRC = "packages";

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

const GLOBALS = ["process", "console", "setTimeout", "crypto", "fetch", "Buffer", "globalThis", "Promise"] as const;

const OFFENCES: readonly Offence[] = [
  imports("core/src/state.ts", "node:fs", "decisions are pure: no node: except crypto"),
  imports("core/src/budget.ts", "@holdfast/platform/files", "decisions are pure: of platform only the error class"),
  imports("core/src/graph.ts", "@holdfast/platform/clock", "decisions are pure", "export { x }"),
  imports("core/src/values.ts", "node:zlib", "decisions are pure: no node: except crypto"),
  imports("core/src/a2.ts", "node:child_process", "core reaches processes, network and threads through platform"),
  imports("testing/src/a3.ts", "vitest", "contract suites are published: they bring no test runner"),
  {
    name: "a built-in without node:, which the purity rules would not see",
    file: "core/src/retention.ts",
    text: `import { x } from "fs";\nexport type Y = typeof x;\n`,
    rule: "unicorn(prefer-node-protocol)",
    says: "node:",
  },
  {
    name: "a cycle",
    file: "core/src/k1.ts",
    text: `import { b } from "./k2.ts";\nexport const a = (): number => b() + 1;\n`,
    rule: "import(no-cycle)",
    says: "k2.ts",
  },
  {
    name: "any",
    file: "core/src/l1.ts",
    text: "export const a = (b: any): unknown => b;\n",
    rule: "typescript(no-explicit-any)",
    says: "any",
  },
  {
    name: "a non-null assertion",
    file: "core/src/l2.ts",
    text: "export const a = (b: string | null): string => b!;\n",
    rule: "typescript(no-non-null-assertion)",
    says: "!",
  },
  {
    name: "Date.now in a decision",
    file: "core/src/rollback.ts",
    text: "export const a = (): number => Date.now();\n",
    rule: "eslint(no-restricted-properties)",
    says: "time is a parameter",
  },
  {
    name: "Math.random in a decision",
    file: "core/src/findings.ts",
    text: "export const a = (): number => Math.random();\n",
    rule: "eslint(no-restricted-properties)",
    says: "randomness is a parameter",
  },
  ...GLOBALS.map((global): Offence => ({
    name: `the global ${global} in a decision`,
    file: "core/src/transitions.ts",
    text: `export const a = (): unknown => [${GLOBALS.join(", ")}];\n`,
    rule: "eslint(no-restricted-globals)",
    says: global,
  })),
  imports("dashboard/src/a4.tsx", "node:fs", "the page runs in a browser"),
  imports("dashboard/src/a5.tsx", "@holdfast/core/json", "the page takes only types from other packages"),
  ...["innerHTML", "outerHTML"].map((property): Offence => ({
    name: `${property} in the page`,
    file: `dashboard/src/${property}.tsx`,
    text: `export const a = (node: { ${property}: string }, text: string): void => {\n  node.${property} = text;\n};\n`,
    rule: "eslint(no-restricted-properties)",
    says: "text from outside never becomes HTML",
  })),
  {
    name: "console",
    file: "workflows/src/o1.ts",
    text: `export const a = (): void => console.log("x");\n`,
    rule: "eslint(no-console)",
    says: "console",
  },
];

/** What the rules must leave alone. Tests may reach further than what they test. */
const GOOD: Readonly<Record<string, string>> = {
  "core/src/k2.ts": `import { a } from "./k1.ts";\nexport const b = (): number => a() + 1;\n`,
  "core/src/run.ts": `import { hash } from "node:crypto";\nimport type { Clock } from "@holdfast/platform/clock";\nexport const a = (at: Clock): unknown => [at, hash];\n`,
  "core/src/run.test.ts": `import { readFileSync } from "node:fs";\nexport const a = readFileSync;\n`,
  "core/src/execute.ts": `import { a } from "./run.ts";\nimport { readFileSync } from "node:fs";\nexport const b = (): unknown => [a, readFileSync, Date.now()];\n`,
  "dashboard/src/good.tsx": `import type { Json } from "@holdfast/core/json";\nexport const a = (b: Json): string => JSON.stringify(b);\n`,
  "git/src/good.ts": `import { spawn } from "node:child_process";\nexport const a = spawn;\n`,
  "testing/src/good.ts": `import { a } from "@holdfast/core/run";\nexport const b = a;\n`,
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
  test.each(Object.keys(GOOD).filter((file) => file !== "core/src/k2.ts"))("%s", (file) => {
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

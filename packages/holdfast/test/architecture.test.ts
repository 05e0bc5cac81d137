import { spawnSync } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { expect, test } from "vitest";

/** Rules for the whole tree that neither the compiler nor the linter checks. Each test lists its offenders. */

const PACKAGES = join(import.meta.dirname, "../..");

/** Package → the packages that its product code may import. Imports point one way. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  platform: [],
  core: ["platform"],
  git: ["core", "platform"],
  agents: ["core", "platform"],
  forges: ["core", "platform"],
  formats: ["core", "platform"],
  workflows: ["core", "platform", "formats"],
  dashboard: ["core"],
  postgres: ["core", "platform"],
  dispatch: ["core", "platform", "postgres"],
  holdfast: [
    "core",
    "platform",
    "git",
    "agents",
    "forges",
    "formats",
    "workflows",
    "dashboard",
    "postgres",
    "dispatch",
  ],
  testing: ["core", "platform", "formats"],
};
/** A text in the source, with any kind of quotes. */
const TEXT = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/.source;
/** Fixtures for tests may import everything; only tests import them. */
const TEST_ONLY = "test-support";

interface Source {
  readonly package: string;
  /** Below the package's src. */
  readonly path: string;
  readonly code: string;
}

const sources = await readSources();
const product = sources.filter((file) => file.package !== TEST_ONLY && !/\.test\.tsx?$/.test(file.path));

test("every package is in the table", () => {
  const packages = new Set(sources.map((file) => file.package));
  expect([...packages].toSorted()).toEqual([...Object.keys(MAY_IMPORT), TEST_ONLY].toSorted());
  expect(product.length).toBeGreaterThan(100);
});

test("imports between packages point one way", () => {
  expect(product.flatMap(forbiddenImports)).toEqual([]);
});

test("no files import each other in a circle, by types either", () => {
  const report = spawnSync(process.execPath, [join(PACKAGES, "../scripts/tree-report.mjs"), "--list"], {
    encoding: "utf8",
  });
  expect(report.stdout).toContain("| import cycles, types included |");
  expect(report.stdout.split("\n").filter((line) => line.startsWith("cycle:"))).toEqual([]);
});

test("no relative import leaves its package", () => {
  const offenders = product.flatMap((file) =>
    importsOf(file.code)
      .filter((target) => target.startsWith(".") && join(dirname(file.path), target).startsWith(".."))
      .map((target) => `${file.package}/src/${file.path} imports ${target}`),
  );
  expect(offenders).toEqual([]);
});

test("a package has at most two levels of folders, and a file at most 600 lines", () => {
  const deep = sources.filter(({ path }) => path.split("/").length > 3);
  const long = product.filter(({ code }) => code.trimEnd().split("\n").length > 600);
  expect([...deep, ...long].map((file) => `${file.package}/src/${file.path}`)).toEqual([]);
});

test("the page makes no HTML from text", () => {
  const page = product.filter((file) => file.package === "dashboard");
  expect(page.filter(({ code }) => /dangerouslySetInnerHTML|srcdoc/i.test(code)).map(({ path }) => path)).toEqual([]);
});

test.each([
  ["core", 'import { x } from "@holdfast/git/push";', ["core/src/a.ts imports @holdfast/git"]],
  ["git", 'const x = import("@holdfast/forges/github");', ["git/src/a.ts imports @holdfast/forges"]],
  ["workflows", 'import type { X } from "@holdfast/test-support/x";', ["imports @holdfast/test-support"]],
  ["core", 'import "@holdfast/platform/clock"; import "./c.ts"; import "node:fs";', []],
])("%s with %s: %j", (name, code, found) => {
  expect(forbiddenImports({ package: name, path: "a.ts", code })).toEqual(
    found.map((text) => expect.stringContaining(text)),
  );
});

/** Where product code outside packages/workflows may name a built-in workflow, and why. A folder ends with a slash. */
const MAY_NAME_WORKFLOWS: Readonly<Record<string, string>> = {
  "formats/src/": "codecs of the files that the tools of the same names write",
  "holdfast/src/config/": "the documented config keys impl:, ralph: and .holdfast/crunch/",
  "holdfast/src/cli/": "flags, help and examples of the built-in workflows",
  "holdfast/src/interop/": "import and export of the other tools' files",
  "holdfast/src/index.ts": "the library's names for impl's checkpoint file",
  "holdfast/src/run-status.ts": "the progress of a loop in the status",
  "holdfast/src/ui/team.ts": "the messages and conflicts of a team on the page",
  "holdfast/src/check-agents.ts": "the role of the agent in a preview",
  "forges/src/github.ts": "a hint that names a config key",
  "testing/src/": "sample values of the contract suites",
};

test("no engine code knows a workflow by name", () => {
  const names = product.filter(({ package: name, code }) => name !== "workflows" && namesWorkflow(code));
  const paths = names.map((file) => `${file.package}/src/${file.path}`);
  const allowed = Object.keys(MAY_NAME_WORKFLOWS);
  const allows = (place: string, path: string): boolean =>
    place.endsWith("/") ? path.startsWith(place) : path === place;
  expect(paths.filter((path) => !allowed.some((place) => allows(place, path)))).toEqual([]);
  expect(allowed.filter((place) => !paths.some((path) => allows(place, path)))).toEqual([]);
});

test.each([
  ['if (run.workflow === "ralph") return;', true],
  ['import { x } from "@holdfast/workflows/crunch/options";', true],
  ["const x = parseImplOptions(given);", true],
  ["const x = crunchOptions;", true],
  ["class A implements B { simple = implicit; } // impl, crunch and ralph", false],
])("%s names a workflow: %s", (code, expected) => {
  expect(namesWorkflow(code)).toBe(expected);
});

/** The YAML parser takes longer to load than everything else that opening a store needs. */
test.each(["open.ts", "cli/main.ts", "context/index.ts", "index.ts"])("%s loads no YAML parser at start", (entry) => {
  const code = new Map(sources.map((file) => [`${file.package}/src/${file.path}`, file.code]));
  const seen = new Set([`holdfast/src/${entry}`]);
  const parsers: string[] = [];
  for (const path of seen) {
    for (const target of loadedBy(code.get(path) ?? "")) {
      if (target === "yaml") parsers.push(path);
      if (target.startsWith(".")) seen.add(join(dirname(path), target));
      if (target.startsWith("@holdfast/")) seen.add(sourceOf(target));
    }
  }
  expect([...seen].filter((path) => !code.has(path))).toEqual([]);
  expect(seen.size).toBeGreaterThan(20);
  expect(parsers).toEqual([]);
});

/** Files of core that decide and do nothing else; the linter has the same list. */
const PURE =
  /^(?:run|checkpoint|position|journal|lease|state|status|budget|effects|graph|graph-state|retention|error-policy|findings|resume-plan|rollback|transitions|options|recording|values|diff-json|audit-json|side-worktree-steps)\.ts$/;

test("decisions are pure", () => {
  const pure = product.filter((file) => file.package === "core" && PURE.test(file.path));
  expect(pure.length).toBeGreaterThan(20);
  expect(pure.flatMap(({ path, code }) => impurities(code).map((found) => `${path} has ${found}`))).toEqual([]);
});

test.each([
  ["export async function a() {}", ["async"]],
  ["const a = async () => 1;", ["async"]],
  ["const b = await a;", ["await"]],
  ["for await (const x of y) {}", ["await"]],
  ["const a = new Date();", ["new Date()"]],
  ["const a = new Date( );", ["new Date()"]],
  ["const a = new Date;", ["new Date()"]],
  ["const a = Date();", ["Date()"]],
  ["const a = x.then(() => 1);", [".then("]],
  ['const a = import("./x.ts");', ["import("]],
  ["const a = new Date(at).toISOString(); // async, await, new Date()", []],
  ['const a = "async await new Date()"; /* await */', []],
  ["const a = `await ${b} new Date()`;", []],
])("%s: %j", (code, found) => {
  expect(impurities(code)).toEqual(found);
});

test("the state of a run is built in core/src/state.ts only", () => {
  expect(product.flatMap(builtStates)).toEqual([]);
});

test.each([
  ["a.ts", 'import type { RunState } from "./state.ts"; const x: RunState = { ...y };', 1],
  ["a.ts", 'import type { RunState } from "./state.ts"; f({ ...writer.state, unsaved: true });', 1],
  ["a.ts", 'import type { RunState } from "./state.ts"; g(x as RunState);', 1],
  ["a.ts", 'import type { RunSession } from "./run-session.ts"; f({ ...writer.state.position });', 0],
  ["a.ts", 'import type { RunSession } from "./run-session.ts"; f({ ...session.state, x });', 1],
  ["a.ts", "const x = { ...state, y };", 0],
  ["state.ts", "return { ...state, unsaved: true };", 0],
])("%s with %s builds %i states", (path, code, count) => {
  expect(builtStates({ package: "core", path, code })).toHaveLength(count);
});

test("a session assigns its state where it is created, advanced and taken back", () => {
  const session = product.find((file) => file.package === "core" && file.path === "run-session.ts");
  expect(session?.code.match(/this\.#state = /g)).toHaveLength(3);
});

test("an import is found in any spelling", () => {
  const code = `import a from "./a.ts"; import type { B } from './b.ts'; export * from "./c.ts"; import "./d.ts";
    const e = import("./e.ts"); type F = import("./f.ts").F; // from "./no.ts"`;
  expect(importsOf(code)).toEqual(["./a.ts", "./b.ts", "./c.ts", "./d.ts", "./e.ts", "./f.ts"]);
});

/** One line for each import that the table does not allow. */
function forbiddenImports(file: Source): readonly string[] {
  const allowed = MAY_IMPORT[file.package] ?? [];
  return importsOf(file.code)
    .filter((target) => target.startsWith("@holdfast/"))
    .map((target) => target.split("/")[1] ?? "")
    .filter((target) => target !== file.package && !allowed.includes(target))
    .map((target) => `${file.package}/src/${file.path} imports @holdfast/${target}`);
}

/** Whether code or a text in it has impl, crunch or ralph as a word, also within an identifier. */
function namesWorkflow(code: string): boolean {
  return /(?<![A-Za-z])(?:impl|crunch|ralph)(?![a-z])|(?:Impl|Crunch|Ralph)(?![a-z])/.test(withoutComments(code));
}

/** "core/src/json.ts" for "@holdfast/core/json". */
function sourceOf(target: string): string {
  const [, name = "", ...path] = target.split("/");
  return `${name}/src/${path.join("/")}.ts`;
}

/** The types are readonly, so a state cannot be changed; this finds code that builds another one. */
function builtStates({ package: name, path, code }: Source): readonly string[] {
  const isState = name === "core" && path === "state.ts";
  if (isState || !/\bRun(?:State|Session)\b/.test(code) || /\bRunState\b.*(?:\/|core\/)run(?:\.ts)?"/.test(code))
    return [];
  const built =
    code.match(
      /\{\s*\.\.\.(?:[\w#.]*\.)?#?state\b(?!\s*[.?[(])|\bas RunState\b|:\s*RunState\s*=\s*\{|satisfies RunState\b/g,
    ) ?? [];
  return built.map((text) => `${name}/src/${path}: ${text}`);
}

function impurities(code: string): readonly string[] {
  const bare = withoutComments(code).replace(new RegExp(TEXT, "g"), '""');
  const signs: readonly (readonly [string, RegExp])[] = [
    ["async", /\basync\b/],
    ["await", /\bawait\b/],
    ["new Date()", /\bnew\s+Date\b(?!\s*\(\s*[^\s)])/],
    ["Date()", /(?<!\bnew\s+)\bDate\s*\(/],
    [".then(", /\.then\s*\(/],
    ["import(", /\bimport\s*\(/],
  ];
  return signs.filter(([, sign]) => sign.test(bare)).map(([found]) => found);
}

function withoutComments(code: string): string {
  const comment = /\/\*[\s\S]*?\*\/|\/\/[^\n]*/.source;
  return code.replace(new RegExp(`${TEXT}|${comment}`, "g"), (piece) => (piece.startsWith("/") ? " " : piece));
}

function importsOf(code: string): readonly string[] {
  const found = withoutComments(code).matchAll(/\b(?:from|import)\s*\(?\s*["']([^"']+)["']/g);
  return [...found].flatMap((match) => (match[1] === undefined ? [] : [match[1]]));
}

/** Imports that run when the module is loaded: neither types nor `import()`. */
function loadedBy(code: string): readonly string[] {
  const found = withoutComments(code).matchAll(
    /^(?:import|export)\s+(?!type\b)(?:[^;"']*?\bfrom\s+)?["']([^"']+)["']/gm,
  );
  return [...found].flatMap((match) => (match[1] === undefined ? [] : [match[1]]));
}

async function readSources(): Promise<readonly Source[]> {
  const packages = await readdir(PACKAGES);
  const lists = await Promise.all(
    packages.map(async (name) => {
      const root = join(PACKAGES, name, "src");
      const entries = await readdir(root, { recursive: true, withFileTypes: true });
      const paths = entries
        .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
        .map((entry) => join(entry.parentPath, entry.name));
      return Promise.all(
        paths
          .toSorted()
          .map(async (path) => ({ package: name, path: relative(root, path), code: await readFile(path, "utf8") })),
      );
    }),
  );
  return lists.flat();
}

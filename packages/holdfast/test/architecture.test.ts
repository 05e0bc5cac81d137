import { readdir, readFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { expect, test } from "vitest";

/**
 * What the linter cannot see: imports made at run time (`import("…")`), and asynchrony or the clock in core.
 * It reads the real tree, so a folder that is not in the table fails until somebody decides where it belongs.
 */

const SRC = join(import.meta.dirname, "../src");

const ADAPTER = ["core", "ports", "system"];
const INSIDE =
  "core ports engine workflows formats stores workspaces agents dispatchers forges gates system config app".split(" ");
/** Folder (or file at the top) → what it may import besides itself. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  core: [],
  ports: ["core"],
  engine: ["core", "ports"],
  workflows: ["core", "ports", "engine"],
  formats: ["core"],
  system: ["core", "ports"],
  stores: ADAPTER,
  workspaces: ADAPTER,
  agents: ADAPTER,
  dispatchers: ADAPTER,
  forges: ADAPTER,
  gates: ADAPTER,
  config: ["core", "ports", "system", "app"],
  app: INSIDE,
  doctor: INSIDE,
  testing: INSIDE,
  index: [...INSIDE, "doctor"],
  library: ["core", "ports", "engine", "stores", "system", "app"],
  cli: ["core", "ports", "system", "config", "app", "doctor", "web"],
  web: ["core", "ports", "system", "config", "app"],
};

const files = await sources(SRC);

test("the tree is there", () => {
  expect(files.length).toBeGreaterThan(20);
});

test("imports point one way, also those made at run time", () => {
  const offenders = files
    .filter((file) => !file.path.endsWith(".test.ts"))
    .flatMap(({ path, code }) => forbiddenImports(path, code));
  expect(offenders).toEqual([]);
});

test.each([
  ["core/a.ts", 'import { x } from "../ports/b.ts";', ["core/a.ts imports ports"]],
  ["core/a.ts", 'const x = import("../engine/b.ts");', ["core/a.ts imports engine"]],
  ["cli/deep/a.ts", 'import "../../stores/b.ts"; import "../../engine/c.ts";', ["stores", "engine"]],
  ["engine/a.ts", 'import "../ports/b.ts"; import "./c.ts"; import "node:fs";', []],
  ["drawer/a.ts", "", ["drawer is not in the table of folders"]],
])("%s with %s: %j", (path, code, found) => {
  expect(forbiddenImports(path, code)).toEqual(found.map((text) => expect.stringContaining(text)));
});

/** It takes longer to load than all of Holdfast that opening a store needs. */
test.each(["app.ts", "cli/main.ts", "library/index.ts", "index.ts"])("%s loads no YAML parser unasked", (entry) => {
  const code = new Map(files.map((file) => [file.path, file.code]));
  const seen = new Set([entry]);
  const parsers: string[] = [];
  for (const path of seen) {
    for (const target of loadedBy(code.get(path) ?? "")) {
      if (target === "yaml") parsers.push(path);
      if (target.startsWith(".")) seen.add(join(dirname(path), target));
    }
  }
  expect(seen.size).toBeGreaterThan(20);
  expect(parsers).toEqual([]);
});

test("core is pure", () => {
  const offenders = files
    .filter((file) => file.path.startsWith("core/") && !file.path.endsWith(".test.ts"))
    .flatMap(({ path, code }) => impurities(code).map((found) => `${path} has ${found}`));
  expect(offenders).toEqual([]);
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

test("the state of a run is built in core/state.ts only", () => {
  const offenders = files
    .filter(({ path }) => !path.endsWith(".test.ts"))
    .flatMap(({ path, code }) => builtStates(path, code));
  expect(offenders).toEqual([]);
});

test.each([
  ["engine/a.ts", 'import type { RunState } from "../core/state.ts"; const x: RunState = { ...y };', 1],
  ["engine/a.ts", 'import type { RunState } from "../core/state.ts"; f({ ...writer.state, unsaved: true });', 1],
  ["engine/a.ts", 'import type { RunState } from "../core/state.ts"; g(x as RunState);', 1],
  ["engine/a.ts", 'import type { RunSession } from "./run-session.ts"; f({ ...writer.state.position });', 0],
  ["engine/a.ts", 'import type { RunSession } from "./run-session.ts"; f({ ...session.state, x });', 1],
  ["engine/a.ts", "const x = { ...state, y };", 0],
  ["core/state.ts", "return { ...state, unsaved: true };", 0],
])("%s with %s builds %i states", (path, code, count) => {
  expect(builtStates(path, code)).toHaveLength(count);
});

test("a session assigns its state where it is made, moved on and taken back", () => {
  const session = files.find(({ path }) => path === "engine/conduct/run-session.ts");
  expect(session?.code.match(/this\.#state = /g)).toHaveLength(3);
});

test("an import is seen however it is written", () => {
  const code = `import a from "./a.ts"; import type { B } from './b.ts'; export * from "./c.ts"; import "./d.ts";
    const e = import("./e.ts"); type F = import("./f.ts").F; // from "./no.ts"`;
  expect(importsOf(code)).toEqual(["./a.ts", "./b.ts", "./c.ts", "./d.ts", "./e.ts", "./f.ts"]);
});

const COMMENT = /\/\*[\s\S]*?\*\/|\/\/[^\n]*/.source;
const TEXT = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/.source;

function withoutComments(code: string): string {
  return code.replace(new RegExp(`${TEXT}|${COMMENT}`, "g"), (piece) => (piece.startsWith("/") ? " " : piece));
}

/** One line for each import that the table of folders does not allow. */
function forbiddenImports(path: string, code: string): readonly string[] {
  const folder = folderOf(path);
  const allowed = MAY_IMPORT[folder];
  if (allowed === undefined) return [`${path}: ${folder} is not in the table of folders`];
  return importsOf(code)
    .filter((target) => target.startsWith("."))
    .map((target) => folderOf(join(dirname(path), target)))
    .filter((target) => target !== folder && !allowed.includes(target))
    .map((target) => `${path} imports ${target}`);
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
  return signs.filter(([, sign]) => sign.test(bare)).map(([name]) => name);
}

function importsOf(code: string): readonly string[] {
  const found = withoutComments(code).matchAll(/\b(?:from|import)\s*\(?\s*["']([^"']+)["']/g);
  return [...found].flatMap((match) => (match[1] === undefined ? [] : [match[1]]));
}

/** Imports that are made when the module is: neither those of types nor those at run time. */
function loadedBy(code: string): readonly string[] {
  const found = withoutComments(code).matchAll(
    /^(?:import|export)\s+(?!type\b)(?:[^;"']*?\bfrom\s+)?["']([^"']+)["']/gm,
  );
  return [...found].flatMap((match) => (match[1] === undefined ? [] : [match[1]]));
}

/** "stores" for stores/sqlite/open.ts, "app" for app.ts. */
function folderOf(path: string): string {
  return (path.split("/")[0] ?? "").replace(/\.ts$/, "");
}

async function sources(root: string): Promise<readonly { readonly path: string; readonly code: string }[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const paths = entries
    .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
    .map((entry) => join(entry.parentPath, entry.name));
  return Promise.all(
    paths.toSorted().map(async (path) => ({ path: relative(root, path), code: await readFile(path, "utf8") })),
  );
}

/** The types are readonly, so a state cannot be changed; this finds code that builds another one. */
function builtStates(path: string, code: string): readonly string[] {
  if (
    path === "core/state.ts" ||
    !/\bRun(?:State|Session)\b/.test(code) ||
    /\bRunState\b.*core\/run\/run\.ts/.test(code)
  )
    return [];
  const built =
    code.match(
      /\{\s*\.\.\.(?:[\w#.]*\.)?#?state\b(?!\s*[.?[(])|\bas RunState\b|:\s*RunState\s*=\s*\{|satisfies RunState\b/g,
    ) ?? [];
  return built.map((text) => `${path}: ${text}`);
}

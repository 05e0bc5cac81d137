// Figures about the source tree, for the table in ARCHITECTURE.md.
//   node scripts/tree-report.mjs            files, lines, coupling and cycles
//   node scripts/tree-report.mjs --paths    also how many files one step, one save, `list`, `resume` and `run` execute (needs Node 24)
// Product code is packages/*/src without tests, fixtures (test-support) and contract suites (testing).
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
/** Files that a table loads by name: one importer is right for them. */
const PLUG_IN =
  /packages\/(?:agents\/src\/(?:acp|claude|codex|command|copilot|gemini|opencode|pi|qwen|scripted)|forges\/src\/(?:github|gitlab|local)|formats\/src\/(?:impl-json|loop-json|crunch-yaml|context-store|atif)|workflows\/src\/[^/]+\/workflow|holdfast\/src\/cli\/commands\/[^/]+)\.ts$/;
const ENTRY =
  /packages\/(?:holdfast\/src\/(?:index|context\/index|cli\/main)|[^/]+\/src\/[^/]*(?:-process|-runner|node-parser))\.ts$/;

const files = productFiles();
const imports = new Map(files.map(({ path, code }) => [path, importsOf(path, code)]));
const importers = new Map(files.map(({ path }) => [path, files.filter((one) => imports.get(one.path).has(path))]));
const lengths = files.map(({ lines }) => lines).toSorted((a, b) => a - b);

const rows = [
  ["product files", files.length],
  ["product lines", lengths.reduce((sum, one) => sum + one, 0)],
  ["median lines of a file", lengths[Math.floor(lengths.length / 2)]],
  ["largest file", lengths.at(-1)],
  ["files under 40 lines", lengths.filter((one) => one < 40).length],
  [
    "files with one importer, plug-ins not counted",
    files.filter(({ path }) => importers.get(path).length === 1 && !PLUG_IN.test(path)).length,
  ],
  ["import cycles, types included", cycles().length],
  ...(process.argv.includes("--paths") ? executedFiles() : []),
];
for (const [name, figure] of rows) console.log(`| ${name} | ${figure.toLocaleString("en-US")} |`);
if (process.argv.includes("--list")) {
  for (const cycle of cycles()) console.log(`cycle: ${cycle.join(" ")}`);
  for (const { path, lines } of files)
    if (lines < 40 && !ENTRY.test(path)) console.log(`under 40 lines: ${path} (${lines})`);
  for (const { path } of files) {
    const [only, ...others] = importers.get(path);
    if (only !== undefined && others.length === 0 && !PLUG_IN.test(path))
      console.log(`one importer: ${path} ← ${only.path}`);
  }
}

function productFiles() {
  const found = [];
  for (const name of readdirSync(join(root, "packages"))) {
    if (name === "test-support" || name === "testing") continue;
    const source = join(root, "packages", name, "src");
    for (const file of readdirSync(source, { recursive: true })) {
      if (!/\.tsx?$/.test(file) || /\.test\.tsx?$/.test(file) || /(?:^|\/)testing\//.test(file)) continue;
      const code = readFileSync(join(source, file), "utf8");
      found.push({ path: relative(root, join(source, file)), code, lines: code.split("\n").length - 1 });
    }
  }
  return found.toSorted((a, b) => (a.path < b.path ? -1 : 1));
}

/** The product files that a file imports, in any way: values, types, at run time. */
function importsOf(path, code) {
  const bare = code.replaceAll(/\/\*[\s\S]*?\*\//g, "").replaceAll(/^\s*\/\/.*$/gm, "");
  const targets = [...bare.matchAll(/\b(?:from|import)\s*\(?\s*["']([^"']+)["']/g)].map(([, target]) => target);
  return new Set(
    targets.flatMap((target) => {
      if (target.startsWith(".")) return [join(dirname(path), target)];
      if (!target.startsWith("@holdfast/")) return [];
      const [, name, ...rest] = target.split("/");
      return [`packages/${name}/src/${rest.join("/")}.ts`];
    }),
  );
}

/** Groups of files that import each other (strongly connected components, Tarjan). */
function cycles() {
  const index = new Map();
  const low = new Map();
  const stack = [];
  const found = [];
  const visit = (path) => {
    index.set(path, index.size);
    low.set(path, index.get(path));
    stack.push(path);
    for (const target of imports.get(path) ?? []) {
      if (!imports.has(target)) continue;
      if (!index.has(target)) {
        visit(target);
        low.set(path, Math.min(low.get(path), low.get(target)));
      } else if (stack.includes(target)) low.set(path, Math.min(low.get(path), index.get(target)));
    }
    if (low.get(path) !== index.get(path)) return;
    const group = stack.splice(stack.indexOf(path));
    if (group.length > 1) found.push(group);
  };
  for (const { path } of files) if (!index.has(path)) visit(path);
  return found;
}

/** How many product files execute at least one of their functions, by V8's precise coverage. */
function executedFiles() {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-report-"));
  const start = join(folder, "start.mjs");
  writeFileSync(start, commandSource());
  writeFileSync(join(folder, "library.mjs"), librarySource());
  const run = (args, cwd, env = {}) =>
    spawnSync(process.execPath, args, { cwd, encoding: "utf8", maxBuffer: 1e9, env: { ...process.env, ...env } });
  const demo = JSON.parse(checked(run([start, "demo", "--seed", "7", "--keep", "--json"], folder))).directory;
  const repository = join(demo, "control/greeter");
  const agent = `scripted:${join(demo, "control/agent.json")}`;
  const count = (...argv) => {
    const coverage = mkdtempSync(join(folder, "coverage-"));
    run([start, ...argv], repository, { NODE_V8_COVERAGE: coverage });
    // The command's own process wrote first; programs that it started are not counted.
    const reports = readdirSync(coverage).map((name) => JSON.parse(readFileSync(join(coverage, name), "utf8")));
    return Math.max(0, ...reports.map(({ result }) => countExecuted(result)));
  };
  try {
    const library = JSON.parse(checked(run([join(folder, "library.mjs")], folder)));
    return [
      ["files that one step executes", countExecuted(library.step)],
      ["files that one save executes", countExecuted(library.save)],
      ["files that `list` executes", count("list")],
      ["files that `run 1` executes", count("run", "1", "--again", "--agent", agent)],
      ["files that `resume` of a finished run executes", count("resume", "issue-1")],
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
    rmSync(demo, { recursive: true, force: true });
  }
}

/** The function that starts at 0 is the module itself: loading it is not counted as executing it. */
function countExecuted(scripts) {
  const executed = scripts.filter(
    ({ url, functions }) =>
      isProduct(url) && functions.some(({ ranges: [range] }) => range.startOffset > 0 && range.count > 0),
  );
  return new Set(executed.map(({ url }) => url)).size;
}

function isProduct(url) {
  return url.startsWith("file:") && imports.has(relative(root, fileURLToPath(url)));
}

function commandSource() {
  const main = pathToFileURL(join(root, "packages/holdfast/src/cli/main.ts")).href;
  return `import { main } from ${JSON.stringify(main)};
process.exitCode = await main({ argv: process.argv.slice(2), version: "0" });
`;
}

/** The second step and the third save: what only the first one executes is not part of the path. */
function librarySource() {
  const index = pathToFileURL(join(root, "packages/holdfast/src/index.ts")).href;
  return `import { Session } from "node:inspector/promises";
import { defineWorkflow, open } from ${JSON.stringify(index)};
const session = new Session();
session.connect();
await session.post("Profiler.enable");
await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
const take = async () => (await session.post("Profiler.takePreciseCoverage")).result;
const found = {};
const workflow = defineWorkflow({
  name: "report",
  initial: "only",
  stages: {
    async only({ step }) {
      await step("first", () => 1);
      await take();
      await step("second", () => 2);
      found.step = await take();
      return { event: "finished", reason: "measured" };
    },
  },
  transitions: { only: { finished: "done" } },
  ends: { done: "done", fatal: "failed" },
  initialState: () => ({}),
});
await using holdfast = await open({ store: "./state" });
await holdfast.start({ workflow, work: { kind: "task", text: "Report" }, id: "report" });
await using run = await holdfast.createRun({ id: "saves" });
for (let page = 1; page <= 3; page += 1) {
  await take();
  await run.save({ values: { page } });
  found.save = await take();
}
process.stdout.write(JSON.stringify(found));
`;
}

function checked({ status, stdout, stderr }) {
  if (status !== 0) throw new Error(`a measured program failed: ${stderr}`);
  return stdout;
}

#!/usr/bin/env node
// Builds what users install into packages/holdfast/dist. Internal workspaces (@holdfast/*) are bundled, never published.
//   node scripts/build.mjs                     the library (ES modules) and the command line (CommonJS)
//   node scripts/build.mjs --types             and the library's type declarations: for npm pack and npm run check
//   node scripts/build.mjs --cli-only --out D  only the command line, into D
import { spawn } from "node:child_process";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { build } from "esbuild";

/** The entry points of the library, relative to packages/. */
const ENTRIES = {
  index: "holdfast/src/index.ts",
  context: "holdfast/src/context/index.ts",
  testing: "testing/src/index.ts",
};
const CLI = "holdfast/src/cli/main.ts";
/** The modules that are in the first file of the command line, with all that they import. */
const START = /\/holdfast\/src\/(?:cli\/(?:main|shell|commands\/(?:list|show|status))|holdfast|open)\.ts$/;
const CLI_DEFINES = { "import.meta.dirname": "__dirname", "import.meta.filename": "__filename" };
/** The oldest supported Node. */
const TARGET = "node22.22";
/** Programs that Holdfast starts by path. The code looks for them in the folder of its own file, so each folder of bundles has a copy. */
const PROGRAMS = ["agents/src/script-runner.ts", "platform/src/watchdog-process.ts", "workflows/src/node-parser.ts"];

/**
 * `Disposable` is in a library file of TypeScript that projects do not load by default. `AbortSignal` comes from @types/node or the DOM;
 * the empty interface merges with theirs, and stands in where a project has neither.
 */
const TYPES_BANNER = `/// <reference lib="esnext.disposable" />
declare global {
  interface AbortSignal {}
}`;

/** The PostgreSQL driver can use a native module instead, if there is one. We never do. */
const NO_NATIVE = {
  name: "no-native-driver",
  resolveId: (id) => (id === "pg-native" ? "\0pg-native" : null),
  load: (id) => (id === "\0pg-native" ? "export default null;" : null),
};

/** The prompt templates of each workflow. The code looks for them as for programs, by this path. */
const PROMPTS = ["impl/prompts", "crunch/prompts", "ralph/prompts"];

/** `import css from "./style.css?raw"` is the text of the file, as in vite. */
const RAW_FILES = {
  name: "raw-files",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /\?raw$/ }, ({ path, resolveDir }) => ({
      path: join(resolveDir, path.replace(/\?raw$/, "")),
      namespace: "raw",
    }));
    onLoad({ filter: /./, namespace: "raw" }, async ({ path }) => ({
      contents: await readFile(path, "utf8"),
      loader: "text",
    }));
  },
};

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const packages = join(root, "packages");
const { dependencies, peerDependencies } = JSON.parse(await readFile(join(packages, "holdfast/package.json"), "utf8"));

const { values } = parseArgs({
  options: { "cli-only": { type: "boolean" }, types: { type: "boolean" }, out: { type: "string" } },
});
const dist = values.out ?? join(packages, "holdfast/dist");
await rm(dist, { recursive: true, force: true });
try {
  await Promise.all([
    buildCli(join(dist, "cli")),
    buildPage(join(dist, "cli")),
    ...(values["cli-only"] ? [] : [buildLibrary(dist)]),
    ...(values.types ? [buildTypes(dist)] : []),
  ]);
} catch (error) {
  // esbuild and tsc print their own errors. The message is enough for the rest.
  console.error(`build failed: ${error.message}`);
  process.exitCode = 1;
}

/**
 * ES modules: one per entry point and program, and chunks for what they share or load on demand. With chunks there is one copy of each
 * class, so `instanceof HoldfastError` holds across entry points. Dependencies are imported, not bundled.
 */
async function buildLibrary(outdir) {
  await bundle({
    entryPoints: Object.entries({ ...ENTRIES, ...programs() }).map(([out, path]) => ({
      out,
      in: join(packages, path),
    })),
    outdir,
    // Chunks are in the same folder as the programs: see PROGRAMS.
    chunkNames: "[name]-[hash]",
    splitting: true,
    format: "esm",
    // The PostgreSQL driver is CommonJS, and requires modules of Node.
    banner: {
      js: 'import { createRequire as holdfastRequire } from "node:module";const require = holdfastRequire(import.meta.url);',
    },
    external: Object.keys({ ...dependencies, ...peerDependencies }),
  });
  await copyPrompts(outdir);
}

/**
 * CommonJS, which with Node's compile cache starts faster than ES modules. One file has what `list`, `status` and `show` need, and so nearly
 * every command. The rest is in chunks that are loaded on demand, in the same folder as the programs: see PROGRAMS.
 */
async function buildCli(outdir) {
  const { rolldown } = await import("rolldown");
  const main = await rolldown({
    input: { main: join(packages, CLI) },
    platform: "node",
    external: Object.keys(peerDependencies),
    plugins: [NO_NATIVE],
    transform: { target: TARGET, define: CLI_DEFINES },
    checks: { ineffectiveDynamicImport: false },
  });
  await main.write({
    dir: outdir,
    format: "cjs",
    entryFileNames: "[name].cjs",
    chunkFileNames: "[name]-[hash].cjs",
    hashCharacters: "hex",
    codeSplitting: { groups: [{ name: "start", test: START }] },
    // Names stay, so that a stack trace in a bug report can be read.
    minify: { compress: false, mangle: false, codegen: { removeWhitespace: true } },
  });
  for (const [name, path] of Object.entries(programs())) {
    await bundle({
      entryPoints: [join(packages, path)],
      outfile: join(outdir, `${name}.cjs`),
      format: "cjs",
      minifySyntax: true,
      minifyWhitespace: true,
      external: Object.keys(peerDependencies),
      define: CLI_DEFINES,
      logOverride: { "empty-import-meta": "error" },
    });
  }
  await copyPrompts(outdir);
  const { overview } = createRequire(import.meta.url)(join(outdir, "main.cjs"));
  await writeFile(join(outdir, "help.txt"), await overview());
}

/**
 * The page of `holdfast ui`, which the server reads at its start; and next to the bundle the program that renders a report to text, for
 * `format export --to html`.
 */
async function buildPage(outdir) {
  const root = join(packages, "dashboard");
  const { build: buildWithVite } = await import("vite");
  await buildWithVite({ root, logLevel: "warn", build: { outDir: join(outdir, "ui"), emptyOutDir: true } });
  await bundle({
    entryPoints: [join(root, "src/report-html.tsx")],
    outfile: join(outdir, "report.cjs"),
    format: "cjs",
    jsx: "automatic",
    jsxImportSource: "preact",
    plugins: [RAW_FILES],
    minifySyntax: true,
    minifyWhitespace: true,
  });
}

/**
 * One .d.ts per entry point, and shared.d.ts for the types that several of them use. tsc writes a declaration file for each source file
 * (`npm run check` reports type errors), and rolldown joins them. No declaration may need @types/node or the DOM.
 */
async function buildTypes(outdir) {
  const [{ rolldown }, { dts }] = await Promise.all([import("rolldown"), import("rolldown-plugin-dts")]);
  const declarations = await mkdtemp(join(tmpdir(), "holdfast-types-"));
  const declarationOf = (path) => join(declarations, path.replace(/\.ts$/, ".d.ts"));
  try {
    const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin/tsc");
    await run(process.execPath, [tsc, "-p", join(packages, "holdfast/tsconfig.build.json"), "--outDir", declarations]);
    const joined = await rolldown({
      input: Object.fromEntries(Object.entries(ENTRIES).map(([name, path]) => [name, declarationOf(path)])),
      plugins: [resolveWorkspaces(declarationOf), dts({ dtsInput: true, tsconfig: false })],
      experimental: { attachDebugInfo: "none" },
    });
    await joined.write({
      dir: outdir,
      chunkFileNames: "[name].d.ts",
      codeSplitting: { groups: [{ name: "shared", minShareCount: 2 }] },
      minifyInternalExports: false,
      postBanner: TYPES_BANNER,
    });
  } finally {
    await rm(declarations, { recursive: true, force: true });
  }
}

/** Resolves `@holdfast/core/json` to the declaration file of packages/core/src/json.ts. */
function resolveWorkspaces(declarationOf) {
  return {
    name: "workspaces",
    resolveId(source) {
      const found = /^@holdfast\/([^/]+)\/(.+)$/.exec(source);
      return found === null ? null : declarationOf(`${found[1]}/src/${found[2]}.ts`);
    },
  };
}

function programs() {
  return Object.fromEntries(PROGRAMS.map((path) => [basename(path, ".ts"), path]));
}

async function copyPrompts(outdir) {
  for (const folder of PROMPTS)
    await cp(join(packages, "workflows/src", folder), join(outdir, folder), { recursive: true });
}

function bundle(options) {
  return build({
    bundle: true,
    platform: "node",
    target: TARGET,
    legalComments: "none",
    logLevel: "warning",
    ...options,
  });
}

function run(command, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: "inherit", cwd: root });
    child.on("error", reject);
    child.on("exit", (status) =>
      status === 0 ? resolve() : reject(new Error(`${args[0]} failed with status ${status}`)),
    );
  });
}

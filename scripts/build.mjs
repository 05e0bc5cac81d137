#!/usr/bin/env node
// The library as ES modules with types (tsc), and the command line as a bundle that starts quickly (esbuild).
//   node scripts/build.mjs                     both, into packages/holdfast/dist
//   node scripts/build.mjs --cli-only --out D  only the bundle, into D (the tests build their own copy)
import { spawn } from "node:child_process";
import { rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { build } from "esbuild";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const source = join(root, "packages/holdfast");

const { values } = parseArgs({ options: { "cli-only": { type: "boolean" }, out: { type: "string" } } });
const dist = values.out ?? join(source, "dist");
await rm(dist, { recursive: true, force: true });
try {
  await Promise.all([buildCli(join(dist, "cli")), ...(values["cli-only"] ? [] : [buildLibrary(dist)])]);
} catch (error) {
  // The compilers have said what is wrong; only a failure of our own needs more than its message.
  console.error(`build failed: ${error.message}`);
  process.exitCode = 1;
}

/**
 * One CommonJS file: parts that a command does not need are in it but are not run, and with Node's compile cache this
 * starts quicker than ES modules in chunks (measured: 1.4 against 1.8 times a bare Node).
 */
async function buildCli(outdir) {
  await bundle("src/cli/main.ts", join(outdir, "main.cjs"));
  // Programs of their own that the scripted agent and the syntax gate start; they look for them beside themselves.
  await bundle("src/agents/script-runner.ts", join(outdir, "script-runner.cjs"));
  await bundle("src/gates/node-parser.ts", join(outdir, "node-parser.cjs"));
  const { overview } = createRequire(import.meta.url)(join(outdir, "main.cjs"));
  await writeFile(join(outdir, "help.txt"), overview());
}

async function bundle(entry, outfile) {
  await build({
    entryPoints: [join(source, entry)],
    outfile,
    bundle: true,
    format: "cjs",
    platform: "node",
    target: "node22.22",
    // Names stay: a stack trace in a bug report should say something.
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: "none",
    // Optional peers: found at run time where they are installed.
    external: ["pg", "@photostructure/sqlite", "@agentclientprotocol/sdk"],
    logLevel: "warning",
    define: { "import.meta.dirname": "__dirname", "import.meta.filename": "__filename" },
    logOverride: { "empty-import-meta": "error" },
  });
}

async function buildLibrary(outdir) {
  const tsc = join(dirname(createRequire(join(root, "package.json")).resolve("typescript/package.json")), "bin/tsc");
  await run(process.execPath, [tsc, "-p", join(source, "tsconfig.build.json"), "--outDir", outdir]);
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

import { build } from "esbuild";
import { basename, join } from "node:path";
import { scratchRoot } from "./scratch.ts";

const built = new Map<string, Promise<string>>();

/** The command that runs a writer of `writers/`: bundled once, since most of a short run would be start-up otherwise. */
export async function writerCommand(name: string, ...args: readonly string[]): Promise<readonly string[]> {
  const source = join(import.meta.dirname, "..", "writers", `${name}.ts`);
  const bundle = built.get(source) ?? bundleWriter(source);
  built.set(source, bundle);
  return [process.execPath, await bundle, ...args];
}

async function bundleWriter(source: string): Promise<string> {
  const outfile = join(scratchRoot(), `${basename(source, ".ts")}.mjs`);
  await build({
    entryPoints: [source],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node22",
    // Bundled CommonJS asks for `require`, which a module has not.
    banner: {
      js: 'import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);',
    },
    logLevel: "error",
  });
  return outfile;
}

import { extname, join } from "node:path";
import { parseBatch, type BatchFile, type ParseAnswer } from "./parse-batch.ts";

/** JavaScript, TypeScript, JSON and YAML. */
export function checkWithNode(params: {
  readonly files: readonly BatchFile[];
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}): Promise<readonly ParseAnswer[]> {
  const flags = ["--experimental-vm-modules", "--disable-warning=ExperimentalWarning"];
  return parseBatch({ ...params, command: process.execPath, args: [...flags, PARSER] });
}

/** Beside this file in whatever form it was built: .ts in the sources, .js in the library, .cjs beside the command line's bundle. */
const PARSER = join(import.meta.dirname, `node-parser${extname(import.meta.filename)}`);

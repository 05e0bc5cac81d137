import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { HoldfastError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Workflow } from "../../engine/definition.ts";

/** The workflow that a file exports, as `default` or as `workflow`. TypeScript is read by Node itself. */
export async function loadWorkflow(path: string, cwd: string): Promise<Workflow<JsonObject>> {
  const file = resolve(cwd, path);
  const loaded = await load(file);
  const found = [loaded["default"], loaded["workflow"]].find(isWorkflow);
  if (found !== undefined) return found;
  throw new HoldfastError({
    code: "WORKFLOW_INVALID",
    message: `${file} exports no workflow`,
    hint: "Let it `export default defineWorkflow({ ... })`; docs/library.md shows one.",
  });
}

async function load(file: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    const module: unknown = await import(pathToFileURL(file).href);
    return isRecord(module) ? module : {};
  } catch (cause) {
    throw new HoldfastError({
      code: "WORKFLOW_INVALID",
      message: `The workflow ${file} cannot be loaded: ${cause instanceof Error ? cause.message : String(cause)}`,
      hint: "Give the path of a file that Node can import; in TypeScript use only syntax that can be erased.",
      cause,
    });
  }
}

/** Made by defineWorkflow, perhaps of another copy of this library: what it looks like tells, not whose class it is. */
function isWorkflow(value: unknown): value is Workflow<JsonObject> {
  return (
    isRecord(value) &&
    isRecord(value["shape"]) &&
    typeof value["definition"] === "string" &&
    isRecord(value["stages"]) &&
    typeof value["initialState"] === "function" &&
    typeof value["parseState"] === "function" &&
    typeof value["guard"] === "function"
  );
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

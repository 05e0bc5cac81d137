import type { PlaceParams } from "../app.ts";
import { HoldfastError } from "../core/error.ts";
import { parsePriority } from "../core/run/priority.ts";
import { parseCount } from "./parse-count.ts";

interface PlaceFlags {
  on(flag: "wait" | "force"): boolean;
  text(flag: "priority" | "max-loops"): string | undefined;
}

/** What was said about a loop's place among those at work. */
export function readPlace(input: PlaceFlags): { readonly place: PlaceParams; readonly priority?: number } {
  const [wait, force] = [input.on("wait"), input.on("force")];
  const limit = input.text("max-loops");
  const priority = readPriority(input.text("priority"));
  return {
    place: {
      whenFull: force ? "force" : wait ? "wait" : "refuse",
      ...(limit === undefined ? {} : { limit: limit === "none" ? null : atLeastOne(limit) }),
    },
    ...(priority === undefined ? {} : { priority }),
  };
}

export function readPriority(text: string | undefined): number | undefined {
  const priority = text === undefined ? undefined : parsePriority(text);
  if (text !== undefined && priority === undefined)
    throw usage(`--priority cannot be "${text}"`, "Give low, normal, high, or a number from -100 to 100.");
  return priority;
}

function atLeastOne(text: string): number {
  const count = parseCount("max-loops", text);
  if (count > 0) return count;
  throw usage("--max-loops 0 would let nobody work", "Give a number from 1 on, or none.");
}

function usage(message: string, hint: string): HoldfastError {
  return new HoldfastError({ code: "USAGE", message, hint });
}

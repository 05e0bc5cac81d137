import { HoldfastError } from "../error.ts";
import type { Json, JsonObject } from "../json.ts";
import { capture } from "./capture.ts";
import { setWatch } from "./captured.ts";
import { boundsWith, NO_BOUNDS, rowObject } from "./row-object.ts";
import { Rows } from "./rows.ts";

/** Below this many keys a plain object costs less. */
export const WORTH_KEEPING = 64;

interface Changes {
  readonly set: Iterable<readonly [key: string, live: unknown]>;
  readonly removed: Iterable<string>;
}

/**
 * An object of many keys of which few change between one save and the next: each look at it costs what changed since the look
 * before, and so does each save.
 */
export class KeptObject {
  #rows = Rows.EMPTY;
  #bounds = NO_BOUNDS;
  #object: JsonObject | undefined;

  /** The object after these changes. undefined: they hold what JSON cannot carry, and nothing is changed. */
  change(changes: Changes): JsonObject | undefined {
    const captured = new Map<string, Json | undefined>();
    let bounds = this.#bounds;
    for (const key of changes.removed) captured.set(key, undefined);
    for (const [key, live] of changes.set) {
      const before = this.#rows.get(key);
      const value = key.isWellFormed() ? captureIfFit(live, before) : undefined;
      if (value === undefined) return undefined;
      bounds = boundsWith(bounds, key, value);
      if (value !== before) captured.set(key, value);
    }
    this.#bounds = bounds;
    if (captured.size > 0 || this.#object === undefined) {
      this.#rows = this.#rows.with(captured);
      this.#object = rowObject(this.#rows, bounds, this.#object);
    }
    return this.#object;
  }
}

function captureIfFit(live: unknown, before: Json | undefined): Json | undefined {
  try {
    const value = capture(live, before);
    // It would keep the live value in memory, which is not looked at again.
    if (typeof value === "object" && value !== null) setWatch(value, undefined);
    return value;
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "NOT_JSON") return undefined;
    throw error;
  }
}

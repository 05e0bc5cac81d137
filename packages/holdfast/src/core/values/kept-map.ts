import type { Json, JsonObject } from "../json.ts";
import { KeptObject, WORTH_KEEPING } from "./kept-object.ts";

/** A map that is saved as an object, again and again: a save then costs what changed since the one before. */
export class KeptMap extends Map<string, Json> {
  readonly #kept = new KeptObject();
  /** Since the kept object was asked for. */
  readonly #changed = new Set<string>();

  constructor(entries: Iterable<readonly [string, Json]> = []) {
    // Not by the constructor of Map, which would call `set` before there are fields.
    super();
    for (const [key, value] of entries) this.set(key, value);
  }

  override set(key: string, value: Json): this {
    this.#changed.add(key);
    return super.set(key, value);
  }

  override delete(key: string): boolean {
    this.#changed.add(key);
    return super.delete(key);
  }

  override clear(): void {
    for (const key of this.keys()) this.#changed.add(key);
    super.clear();
  }

  /** As it is now, whatever becomes of the map. With anything in it that JSON cannot carry, an object that capture refuses. */
  object(): JsonObject {
    if (this.size < WORTH_KEEPING) return Object.fromEntries(this);
    const set: [string, Json | undefined][] = [];
    const removed: string[] = [];
    for (const key of this.#changed) {
      if (this.has(key)) set.push([key, this.get(key)]);
      else removed.push(key);
    }
    const object = this.#kept.change({ set, removed });
    if (object === undefined) return Object.fromEntries(this);
    this.#changed.clear();
    return object;
  }
}

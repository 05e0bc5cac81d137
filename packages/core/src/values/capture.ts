import type { Json, JsonArray, JsonContainer, JsonObject } from "../json.ts";
import { buildObject, isAscending, setOwn } from "./build-object.ts";
import {
  WORTH_REMEMBERING,
  exactHeight,
  hasIrregular,
  heightBound,
  isCaptured,
  isIrregular,
  linkBase,
  markIrregular,
  rememberCaptured,
  setWatch,
  watchOf,
} from "./captured.ts";
import { REPLACED, type ShiftBudget, findShift } from "./find-shift.ts";
import { MAX_DEPTH } from "./limits.ts";
import { Unfit, isPlainArray, isPlainObject, refusal } from "./refusal.ts";
import { type Watch, WatchRow, isUnchanged, trust } from "./watch.ts";

/**
 * A deeply frozen copy that shares every part equal to the corresponding part of `previous` (a product of capture or
 * decode). Equal as a whole: returns `previous` itself. Exact however the live value was changed in between.
 * NOT_JSON, with the path in `data.path`, for anything JSON cannot carry. What is new is inspected: prototypes,
 * accessors, symbols. A property that reads the same as before is taken as the same, and so is the same live object
 * when all in it does; one frozen through and through is not read again.
 */
export function capture(live: unknown, previous?: Json): Json {
  try {
    const base = isUsableBase(previous) ? previous : undefined;
    const tally: Tally = { weight: 0, deepest: 0, watch: undefined };
    const value = captureValue(tally, live, base, isContainer(base) ? watchOf(base) : undefined, 0);
    if (isContainer(value)) {
      if (!isCaptured(value)) rememberCaptured(value, tally.deepest);
      // It moves on: an old value must not keep live objects in memory.
      if (isContainer(base)) setWatch(base, undefined);
      if (tally.watch !== undefined) setWatch(value, tally.watch);
    }
    return value;
  } catch (error) {
    if (error instanceof Unfit || error instanceof RangeError) throw refusal(live, error);
    throw error;
  }
}

/** Running estimates: the length of what was copied, and the greatest depth that was reached anywhere. */
interface Tally {
  weight: number;
  deepest: number;
  /** Of the container captured last; undefined after a scalar. */
  watch: Watch | undefined;
}

/** What a part shared with the base counts for, its size being unknown. */
const KEPT_WEIGHT = 64;

/** A base that is not ours may change; with keys on Object.prototype, reading one proves nothing. */
function isUsableBase(previous: Json | undefined): boolean {
  return isContainer(previous) && isCaptured(previous) && Object.keys(Object.prototype).length === 0;
}

function isContainer(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

function captureValue(
  tally: Tally,
  live: unknown,
  base: Json | undefined,
  watch: Watch | undefined,
  depth: number,
): Json {
  tally.watch = undefined;
  switch (typeof live) {
    case "string":
      if (live === base) return base;
      if (!live.isWellFormed()) throw new Unfit();
      tally.weight += live.length;
      return live;
    case "number":
      if (live === base) return base;
      if (!Number.isFinite(live)) throw new Unfit();
      // Canonical JSON knows one zero.
      return live === 0 ? 0 : live;
    case "boolean":
      return live;
    case "object":
      if (live === null) return null;
      if (depth >= MAX_DEPTH) throw new Unfit();
      if (watch !== undefined && watch.live === live && isUnchanged(watch)) {
        tally.watch = watch;
        return keep(tally, watch.captured);
      }
      if (isCaptured(live)) return reuse(tally, live, depth);
      if (Array.isArray(live)) return captureArray(tally, live, Array.isArray(base) ? base : undefined, watch, depth);
      return captureObject(tally, live, isPlainBase(base) ? base : undefined, watch, depth);
    default:
      throw new Unfit();
  }
}

/** Reading `__proto__` of a base that has no such key of its own gives Object.prototype. */
function isPlainBase(base: Json | undefined): base is JsonObject {
  return isContainer(base) && !Array.isArray(base) && base !== Object.prototype;
}

function reuse(tally: Tally, live: object, depth: number): Json {
  const reach = depth + heightBound(live);
  if (reach > MAX_DEPTH && depth + exactHeight(live) > MAX_DEPTH) throw new Unfit();
  tally.weight += WORTH_REMEMBERING;
  if (reach > tally.deepest) tally.deepest = Math.min(reach, MAX_DEPTH);
  // Only capture and decode register values.
  const value = live as JsonContainer;
  tally.watch = trust(live, value);
  return value;
}

function captureArray(
  tally: Tally,
  live: readonly unknown[],
  base: JsonArray | undefined,
  watch: Watch | undefined,
  depth: number,
): JsonArray {
  if (!isPlainArray(live)) throw new Unfit();
  const before = tally.weight;
  const length = live.length;
  const watches = new WatchRow(live, base, watch);
  // The live row begins as the base does, as a rule; what follows is for the rest.
  const same = watches.countUnchanged(live);
  tally.weight += same * KEPT_WEIGHT;
  let copy: Json[] | undefined;
  let partner = same;
  let insertedUntil = 0;
  let budget: ShiftBudget | undefined;
  for (let i = same; i < length; i += 1) {
    const from = base === undefined || i < insertedUntil ? undefined : base[partner];
    let child = captureValue(tally, live[i], from, watches.known?.[partner], depth + 1);
    if (child === from) {
      partner += 1;
    } else {
      copy ??= firstOf(base, i);
      budget ??= { left: length + (base?.length ?? 0) };
      const shift =
        base === undefined
          ? REPLACED
          : findShift({ live, at: i, base, partner, isInserted: i < insertedUntil, budget });
      switch (shift.kind) {
        case "moved":
          child = captureValue(tally, live[i], base?.[shift.partner], watches.known?.[shift.partner], depth + 1);
          partner = shift.partner + 1;
          break;
        case "inserted":
          insertedUntil = shift.until;
          break;
        case "replaced":
          if (i >= insertedUntil) partner += 1;
      }
    }
    watches.add(i, tally.watch);
    if (copy !== undefined) copy.push(child);
  }
  if (copy === undefined && base?.length === length) {
    tally.watch = watches.over(base);
    return keep(tally, base);
  }
  const value = copy ?? firstOf(base, length);
  // Holes make fewer keys, named extras more; a hole and an extra together fail on the hole, which reads undefined.
  if (Object.keys(live).length !== length || hasSymbols(live)) throw new Unfit();
  tally.weight += length;
  const sealed = seal(tally, { value, children: value, regular: true, base, depth, before, front: same });
  tally.watch = watches.over(sealed);
  return sealed;
}

/** Spreading copies a frozen array at once; slice would go element by element. */
function firstOf(base: JsonArray | undefined, length: number): Json[] {
  const copy = base === undefined ? [] : [...base];
  copy.length = length;
  return copy;
}

function captureObject(
  tally: Tally,
  live: object,
  base: JsonObject | undefined,
  watch: Watch | undefined,
  depth: number,
): JsonObject {
  if (!isPlainObject(live)) throw new Unfit();
  // Plain, and with no keys on Object.prototype: `for in` meets its own keys only.
  const source = live as Readonly<Record<string, unknown>>;
  const before = tally.weight;
  const watches = new WatchRow(live, base, watch);
  if (base === undefined) {
    if (hasSymbols(source)) throw new Unfit();
    const keys = Object.keys(source);
    const values: Json[] = [];
    for (const key of keys) {
      values.push(captureValue(tally, inspected(tally, source, key), undefined, undefined, depth + 1));
      watches.add(values.length - 1, tally.watch);
    }
    const sealed = seal(tally, { ...buildSealing(keys, values), base, depth, before, front: 0 });
    tally.watch = watches.over(sealed);
    return sealed;
  }
  let changed: Map<string, Json> | undefined;
  let count = 0;
  let shared = 0;
  for (const key in source) {
    const at = count;
    count += 1;
    const value = source[key];
    const from = base[key];
    // Much the most frequent case. What a base only inherits is a function, `undefined` or Object.prototype.
    if (value === from && (typeof value === "string" || typeof value === "number" || value === null)) {
      watches.add(at, undefined);
      shared += 1;
      continue;
    }
    const child = captureValue(tally, value, from, watches.known?.[at], depth + 1);
    watches.add(at, tally.watch);
    if (child === from) {
      shared += 1;
      continue;
    }
    inspected(tally, source, key);
    if (Object.hasOwn(base, key)) shared += 1;
    changed ??= new Map();
    changed.set(key, child);
  }
  const sameKeys = shared === count && countKeys(base) === count;
  if (changed === undefined && sameKeys) {
    tally.watch = watches.over(base);
    return keep(tally, base);
  }
  if (hasSymbols(source)) throw new Unfit();
  const built =
    sameKeys && changed !== undefined ? changeValues(base, changed) : changeKeys(base, Object.keys(source), changed);
  const sealed = seal(tally, { ...built, base, depth, before, front: 0 });
  tally.watch = watches.over(sealed);
  return sealed;
}

function countKeys(base: JsonObject): number {
  let count = 0;
  for (const _ in base) count += 1;
  return count;
}

function hasSymbols(source: object): boolean {
  return Object.getOwnPropertySymbols(source).length > 0;
}

function inspected(tally: Tally, source: Readonly<Record<string, unknown>>, key: string): unknown {
  const descriptor = Object.getOwnPropertyDescriptor(source, key);
  if (descriptor === undefined || !("value" in descriptor) || !key.isWellFormed()) throw new Unfit();
  tally.weight += key.length + 1;
  return descriptor.value;
}

interface Built<T extends JsonContainer> {
  readonly value: T;
  /** All children that may be irregular. */
  readonly children: readonly Json[];
  readonly regular: boolean;
}

function changeValues(base: JsonObject, changed: ReadonlyMap<string, Json>): Built<JsonObject> {
  const copy: Record<string, Json> = { ...base };
  for (const [key, child] of changed) setOwn(copy, key, child);
  if (!isIrregular(base)) return { value: copy, children: [...changed.values()], regular: true };
  return { value: copy, children: Object.values(copy), regular: isAscending(Object.keys(copy)) };
}

function changeKeys(
  base: JsonObject,
  keys: readonly string[],
  changed: ReadonlyMap<string, Json> | undefined,
): Built<JsonObject> {
  const values: Json[] = [];
  for (const key of keys) {
    const child = changed?.get(key);
    values.push(child === undefined ? (base[key] ?? null) : child);
  }
  return buildSealing(keys, values);
}

function buildSealing(keys: readonly string[], values: readonly Json[]): Built<JsonObject> {
  const { object, regular } = buildObject(keys, values);
  return { value: object, children: values, regular };
}

function keep<T extends JsonContainer>(tally: Tally, base: T): T {
  tally.weight += KEPT_WEIGHT;
  return base;
}

interface Sealing<T extends JsonContainer> extends Built<T> {
  readonly base: T | undefined;
  readonly depth: number;
  /** The tally's weight when the container was entered. */
  readonly before: number;
  /** So many children at the front are known to be those of the base. */
  readonly front: number;
}

function seal<T extends JsonContainer>(tally: Tally, sealing: Sealing<T>): T {
  const { value, base, depth } = sealing;
  if (!sealing.regular || hasIrregular(sealing.children)) markIrregular(value);
  // Parts kept from the base reach as deep as the base does.
  const reach = base === undefined ? depth + 1 : Math.min(depth + heightBound(base), MAX_DEPTH);
  if (reach > tally.deepest) tally.deepest = reach;
  // What is shared with the base has no weight here, so a base worth remembering speaks for its successor.
  const hasBase = base !== undefined && isCaptured(base);
  if (hasBase || tally.weight - sealing.before >= WORTH_REMEMBERING) rememberCaptured(value, tally.deepest - depth);
  if (hasBase) linkBase(value, base, sealing.front);
  Object.freeze(value);
  return value;
}

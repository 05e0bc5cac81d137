import type { Json, JsonContainer } from "../json.ts";

/**
 * What is known about captured containers. All of it is weak. Small containers are not remembered: capturing them
 * again costs less than remembering them. Forgetting costs time only, save for `irregular`, which is complete.
 */
const heights = new WeakMap<object, number>();
const irregular = new WeakSet();
const bases = new WeakMap<object, Base>();

interface Base {
  readonly value: JsonContainer;
  /** So many elements at the front are the very same: no need to look. */
  readonly front: number;
  readonly links: number;
}

/** Every container estimated to be at least this long is remembered, so one that is not is also not nested deeper. */
export const WORTH_REMEMBERING = 256;
/** A base holds its own base alive: a row of values captured but never encoded must not grow without end. */
const MAX_LINKS = 16;

let someIrregular = false;

/** `height` may be an upper bound; 1 is a container without containers in it. */
export function rememberCaptured(value: object, height: number): void {
  heights.set(value, height);
}

export function isCaptured(value: object): boolean {
  return heights.has(value);
}

export function heightBound(value: object): number {
  return heights.get(value) ?? WORTH_REMEMBERING;
}

export function exactHeight(value: object): number {
  let height = 0;
  for (const child of Object.values(value)) {
    if (typeof child === "object" && child !== null) height = Math.max(height, exactHeight(child));
  }
  return height + 1;
}

/** Somewhere inside, the engine enumerates keys in another order than the canonical one (integer-like keys). */
export function isIrregular(value: object): boolean {
  return someIrregular && irregular.has(value);
}

export function hasIrregular(children: readonly Json[]): boolean {
  if (!someIrregular) return false;
  for (const child of children) {
    if (typeof child === "object" && child !== null && irregular.has(child)) return true;
  }
  return false;
}

export function markIrregular(value: object): void {
  someIrregular = true;
  irregular.add(value);
}

/** `base` is what `value` was captured against: most of its parts are shared. A hint for encode, no more. */
export function linkBase(value: object, base: JsonContainer, front: number): void {
  const links = bases.get(base)?.links ?? 0;
  if (links >= MAX_LINKS) bases.delete(base);
  bases.set(value, { value: base, front, links: links >= MAX_LINKS ? 1 : links + 1 });
}

export function baseOf(value: object): Base | undefined {
  return bases.get(value);
}

export function unlinkBase(value: object): void {
  bases.delete(value);
}

import type { Json, JsonContainer } from "../json.ts";
import { factsOf, noteHeight } from "./facts.ts";
import type { Watch } from "./watch.ts";

/**
 * What is known about captured containers goes with them. Small containers are not remembered: capturing them
 * again costs less than remembering them. Forgetting costs time only, save for `irregular`, which is complete.
 */
const irregular = new WeakSet();

export interface Base {
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

/** `height` may be an upper bound. Best told before it is frozen. */
export function rememberCaptured(value: object, height: number): void {
  noteHeight(value, height);
}

export function isCaptured(value: object): boolean {
  return factsOf(value) !== undefined;
}

export function heightBound(value: object): number {
  return factsOf(value)?.height ?? WORTH_REMEMBERING;
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

/** `base` is what `value` was captured against: most of its parts are shared. A hint for encode, no more. Both are remembered. */
export function linkBase(value: object, base: JsonContainer, front: number): void {
  const facts = factsOf(value);
  const before = factsOf(base);
  if (facts === undefined || before === undefined) return;
  const links = before.base?.links ?? 0;
  if (links >= MAX_LINKS) before.base = undefined;
  facts.base = { value: base, front, links: links >= MAX_LINKS ? 1 : links + 1 };
}

export function baseOf(value: object): Base | undefined {
  return factsOf(value)?.base;
}

export function unlinkBase(value: object): void {
  const facts = factsOf(value);
  if (facts !== undefined) facts.base = undefined;
}

export function watchOf(value: object): Watch | undefined {
  return factsOf(value)?.watch;
}

export function setWatch(value: object, watch: Watch | undefined): void {
  const facts = factsOf(value);
  if (facts !== undefined) facts.watch = watch;
}

import { type Json, type JsonContainer, type JsonObject, isJsonArray } from "../json.ts";

/**
 * What a live container looked like when it was captured: the next capture meets the same live object as a rule, and
 * finds in one pass over a plain list that nothing in it was changed. A watch saves time, never decides a value: what
 * it cannot vouch for is compared with the captured value itself.
 */
export interface Watch {
  readonly live: object;
  readonly captured: JsonContainer;
  /**
   * Every open container at and below `live`: itself, the number of its entries, then its elements, or its keys and
   * values in turn. Empty where nothing is open: what is frozen through and through cannot change. undefined for a
   * container that is too long for a list, or was met only once.
   */
  readonly tape: Tape | undefined;
  /** Of a long container, or one with a row in it: the watch of each entry that is a container, in live order. */
  readonly children: Watches | undefined;
}

type Watches = readonly (Watch | undefined)[];
type Tape = readonly unknown[];

/** In list entries. A container that changed is compared value by value, so a list must not speak for too many. */
const MAX_TAPE = 256;
const NOTHING_OPEN: Tape = [];
const ROW = 8;

export function isUnchanged(watch: Watch): boolean {
  return watch.tape !== undefined && readsTheSame(watch.tape);
}

/** Of something that cannot change. */
export function trust(live: object, captured: JsonContainer): Watch {
  return { live, captured, tape: NOTHING_OPEN, children: undefined };
}

/** Of something that was equal to what another object had been before: worth more only when it comes again. */
function glance(live: object, captured: JsonContainer): Watch {
  return { live, captured, tape: undefined, children: undefined };
}

/** `captured` was made from `live` just now, or found equal to it. */
function watchOver(live: object, captured: JsonContainer, children: Watches | undefined): Watch {
  const tape = isFrozenThrough(live, captured, children) ? NOTHING_OPEN : tapeOf(live, captured, children);
  if (tape === undefined) return { live, captured, tape, children };
  const kept = children !== undefined && hasRow(children) ? children : undefined;
  return { live, captured, tape, children: kept };
}

/** A row is often made anew of the same elements, and so is what holds it: then its elements speak for themselves. */
function hasRow(children: Watches): boolean {
  return children.length >= ROW || children.some((child) => child?.children !== undefined);
}

/**
 * An accessor on a frozen object may still say something else each time; a frozen value may not. It must be the value that
 * was captured: whoever was asked while it was read may have frozen it since.
 */
function isFrozenThrough(live: object, captured: JsonContainer, children: Watches | undefined): boolean {
  if (!Object.isFrozen(live)) return false;
  if (Array.isArray(live)) {
    if (!isJsonArray(captured) || live.length > MAX_TAPE || live.length !== captured.length) return false;
    for (let i = 0; i < live.length; i += 1) if (!isFixed(live, i, captured[i], children?.[i])) return false;
    return true;
  }
  // Both are containers, and of one kind.
  const copy = captured as JsonObject;
  let met = 0;
  for (const key in live) {
    if (met >= MAX_TAPE || !isFixed(live, key, copy[key], children?.[met])) return false;
    met += 1;
  }
  return true;
}

function isFixed(live: object, key: string | number, as: Json | undefined, child: Watch | undefined): boolean {
  const property = Object.getOwnPropertyDescriptor(live, key);
  if (property === undefined || !("value" in property)) return false;
  const value: unknown = property.value;
  if (typeof value !== "object" || value === null) return value === as;
  return child !== undefined && child.tape === NOTHING_OPEN && child.live === value && child.captured === as;
}

/** The hottest loop of a save. `for in` over an object whose shape the engine knows costs a few nanoseconds a key. */
function readsTheSame(tape: Tape): boolean {
  for (let at = 0; at < tape.length;) {
    const live = tape[at];
    const count = tape[at + 1];
    at += 2;
    if (Array.isArray(live)) {
      const elements: readonly unknown[] = live;
      if (elements.length !== count) return false;
      for (let i = 0; i < elements.length; i += 1, at += 1) if (!Object.is(elements[i], tape[at])) return false;
    } else {
      // Only tapeOf makes tapes: what is no array is an object.
      const source = live as Readonly<Record<string, unknown>>;
      let met = 0;
      for (const key in source) {
        if (key !== tape[at] || !Object.is(source[key], tape[at + 1])) return false;
        met += 1;
        at += 2;
      }
      if (met !== count) return false;
    }
  }
  return true;
}

/** Reads `live` again, so it takes down only what reads as it was captured: a proxy may say something else each time. */
function tapeOf(live: object, captured: JsonContainer, children: Watches | undefined): Tape | undefined {
  const tape: unknown[] = [live, 0];
  let met = 0;
  const take = (value: unknown, as: Json | undefined): boolean => {
    tape.push(value);
    const child = children?.[met];
    met += 1;
    if (tape.length > MAX_TAPE) return false;
    if (typeof value !== "object" || value === null) return value === as;
    return child !== undefined && child.tape !== undefined && child.live === value && child.captured === as;
  };
  if (Array.isArray(live)) {
    if (!isJsonArray(captured) || live.length > MAX_TAPE || live.length !== captured.length) return undefined;
    for (let i = 0; i < live.length; i += 1) if (!take(live[i], captured[i])) return undefined;
  } else {
    const source = live as Readonly<Record<string, unknown>>;
    // Both are containers, and of one kind.
    const copy = captured as JsonObject;
    for (const key in source) {
      tape.push(key);
      if (!take(source[key], copy[key])) return undefined;
    }
  }
  tape[1] = met;
  if (children === undefined) return tape;
  for (const child of children) if (child?.tape !== undefined) for (const entry of child.tape) tape.push(entry);
  return tape.length > MAX_TAPE ? undefined : tape;
}

/** Gathers the watches of a container's entries while it is captured, and makes its own of them. */
export class WatchRow {
  /** Those of the capture before; in an array, of the elements of the base one by one. */
  readonly known: Watches | undefined;
  readonly #live: object;
  readonly #before: Watch | undefined;
  /** undefined while they are the known ones. */
  #row: (Watch | undefined)[] | undefined;

  constructor(live: object, base: JsonContainer | undefined, before: Watch | undefined) {
    this.#live = live;
    this.#before = before?.captured === base ? before : undefined;
    this.known = this.#before?.children;
  }

  /** How many elements at the front are the very ones of the base, and unchanged. */
  countUnchanged(live: readonly unknown[]): number {
    const { known } = this;
    if (known === undefined) return 0;
    const end = Math.min(live.length, known.length);
    let at = 0;
    for (; at < end; at += 1) {
      const watch = known[at];
      if (watch === undefined || watch.live !== live[at]) break;
      if (watch.tape === undefined || !readsTheSame(watch.tape)) break;
    }
    return at;
  }

  add(at: number, watch: Watch | undefined): void {
    if (this.#row === undefined) {
      if (watch === this.known?.[at]) return;
      this.#row = this.known?.slice(0, at) ?? [];
      while (this.#row.length < at) this.#row.push(undefined);
    }
    this.#row.push(watch);
  }

  over(captured: JsonContainer): Watch {
    const before = this.#before;
    const isNew = before !== undefined && before.live !== this.#live;
    if (isNew && this.known === undefined) return glance(this.#live, captured);
    if (!isNew && before?.captured === captured && this.#row === undefined && this.known !== undefined) return before;
    return watchOver(this.#live, captured, this.#row ?? this.known);
  }
}

import { LEAF_MAX } from "./values/limits.ts";

/**
 * Writes small states as canonical JSON in one pass: the text is at once the captured copy and what is stored, so a
 * small save needs no other. Remembers the shape of the state before, because states of one run are alike: keys are
 * sorted and looked into once, and what is the same as before, and cannot have changed, is not written again.
 */
export interface SmallStateWriter {
  /**
   * Equal to the root that encode makes of the same value. undefined when the value is too long for that, or is not
   * JSON at all: then capture has to look at it.
   */
  write(live: unknown): string | undefined;
}

export function createSmallStateWriter(): SmallStateWriter {
  const root: Place = newPlace();
  return {
    write(live) {
      if (typeof live !== "object" || live === null) return undefined;
      try {
        const text = containerText(live, root, 0);
        return text.length <= LEAF_MAX ? text : undefined;
      } catch (error) {
        if (error instanceof NotSmall) return undefined;
        throw error;
      }
    },
  };
}

/** What stood at one place of the state before. */
interface Place {
  /** As the object enumerated them. */
  keys: readonly string[];
  /** In canonical order, with what is written before each value. */
  members: readonly Member[];
  /** Shared by the elements of an array, which are alike as a rule. */
  element: Place | undefined;
  /** Whether what was written last cannot change any more, at any depth. */
  frozen: boolean;
}

interface Member {
  readonly key: string;
  readonly before: string;
  place: Place | undefined;
  /** A scalar, or an object that is frozen through and through: met again, it needs no second look. */
  same: unknown;
  /** `before` and that value. */
  text: string;
}

class NotSmall extends Error {}

/** Equal to no value of a live object. */
const NOTHING = Symbol("nothing was here yet");
const NO_KEYS: readonly string[] = [NOTHING.toString()];

function newPlace(): Place {
  return { keys: NO_KEYS, members: [], element: undefined, frozen: false };
}

/** Each takes four characters at least. */
const MAX_KEYS = LEAF_MAX / 4;

/** Ends a walk through a cycle, long before the stack does; nothing small is so deep. */
const MAX_DEPTH = 64;

function containerText(live: object, place: Place, depth: number): string {
  if (depth > MAX_DEPTH) throw new NotSmall();
  const text = Array.isArray(live) ? arrayText(live, place, depth) : objectText(live, place, depth);
  if (text.length > LEAF_MAX) throw new NotSmall();
  return text;
}

function arrayText(live: readonly unknown[], place: Place, depth: number): string {
  if (Object.getPrototypeOf(live) !== Array.prototype || live.length > LEAF_MAX) throw new NotSmall();
  if (Object.keys(live).length !== live.length || Object.getOwnPropertySymbols(live).length > 0) throw new NotSmall();
  place.frozen = Object.isFrozen(live);
  if (live.length === 0) return "[]";
  const element = (place.element ??= newPlace());
  let text = "[";
  for (let i = 0; i < live.length; i++) {
    const value = live[i];
    if (i > 0) text += ",";
    if (typeof value === "object" && value !== null) {
      text += containerText(value, element, depth + 1);
      if (!element.frozen) place.frozen = false;
    } else text += scalarText(value);
    if (text.length > LEAF_MAX) throw new NotSmall();
  }
  return `${text}]`;
}

function objectText(live: object, place: Place, depth: number): string {
  const prototype: unknown = Object.getPrototypeOf(live);
  if (prototype !== Object.prototype && prototype !== null) throw new NotSmall();
  if (Object.getOwnPropertySymbols(live).length > 0) throw new NotSmall();
  if (!hasKeys(live, place.keys)) learn(live, place);
  let frozen = Object.isFrozen(live);
  // Plain, and read by its own keys only.
  const source = live as Readonly<Record<string, unknown>>;
  const { members } = place;
  let text = members.length === 0 ? "{" : "";
  for (let i = 0; i < members.length; i++) {
    const member = members[i];
    if (member === undefined) continue;
    const value = source[member.key];
    if (value === member.same) text += member.text;
    else if (typeof value === "object" && value !== null) {
      const below = (member.place ??= newPlace());
      const content = member.before + containerText(value, below, depth + 1);
      text += content;
      if (below.frozen) {
        member.same = value;
        member.text = content;
      } else frozen = false;
    } else {
      member.text = member.before + scalarText(value);
      member.same = value;
      text += member.text;
    }
  }
  place.frozen = frozen;
  return `${text}}`;
}

function hasKeys(live: object, keys: readonly string[]): boolean {
  let i = 0;
  for (const key in live) {
    if (key !== keys[i]) return false;
    i += 1;
  }
  return i === keys.length;
}

/** A new shape is looked into as closely as capture does: no accessors, nothing hidden. */
function learn(live: object, place: Place): void {
  let count = 0;
  for (const _ in live) if (++count > MAX_KEYS) throw new NotSmall();
  const keys = Object.keys(live);
  if (Object.getOwnPropertyNames(live).length !== keys.length) throw new NotSmall();
  for (const key of keys) {
    const descriptor = Object.getOwnPropertyDescriptor(live, key);
    if (descriptor === undefined || !("value" in descriptor) || !key.isWellFormed()) throw new NotSmall();
  }
  // Sorts by UTF-16 units, which is the canonical order.
  place.members = [...keys].sort().map((key, i) => {
    const before = `${i === 0 ? "{" : ","}${JSON.stringify(key)}:`;
    return { key, before, place: undefined, same: NOTHING, text: "" };
  });
  place.keys = keys;
}

function scalarText(value: unknown): string {
  switch (typeof value) {
    case "string":
      if (value.length > LEAF_MAX || !value.isWellFormed()) throw new NotSmall();
      return JSON.stringify(value);
    case "number":
      if (!Number.isFinite(value)) throw new NotSmall();
      // Canonical JSON knows one zero, and so does this.
      return `${value}`;
    case "boolean":
      return value ? "true" : "false";
    default:
      if (value === null) return "null";
      throw new NotSmall();
  }
}

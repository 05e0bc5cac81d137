import { LEAF_MAX } from "./limits.ts";

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
  shape: "none" | "array" | "object";
  /** Members of an object in canonical order, and as the object enumerates them. */
  members: readonly Member[];
  enumerated: readonly Member[];
  /** Of the members those that have changed before, and the text around them, which did not. */
  restless: readonly Member[];
  between: readonly string[];
  /** Shared by the elements of an array, which are alike as a rule. */
  element: Place | undefined;
  /** Whether what was written last cannot change any more, at any depth. */
  frozen: boolean;
  everFrozen: boolean;
  asked: number;
  text: string;
  /** Counts the times that `text` became another. */
  version: number;
  /** False while the members are walked: a walk that was broken off leaves `text` behind them. */
  whole: boolean;
}

interface Member {
  readonly key: string;
  readonly before: string;
  place: Place | undefined;
  /** Of the place, when its text was taken; 0 when there stands a scalar. */
  version: number;
  restless: boolean;
  /** A scalar, or an object that is frozen through and through: met again, it needs no second look. */
  same: unknown;
  /** `before` and that value; empty at first. */
  text: string;
}

class NotSmall extends Error {}

/** Equal to no value of a live object. */
const NOTHING = Symbol("nothing was here yet");

function newPlace(): Place {
  return {
    shape: "none",
    members: [],
    enumerated: [],
    restless: [],
    between: [],
    element: undefined,
    frozen: false,
    everFrozen: false,
    asked: 0,
    text: "",
    version: 0,
    whole: false,
  };
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
  if (live.length === 0) return settle(place, "[]");
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
  return settle(place, `${text}]`);
}

function settle(place: Place, text: string): string {
  if (text !== place.text || place.version === 0) {
    place.text = text;
    place.version += 1;
  }
  place.shape = "array";
  return place.text;
}

function objectText(live: object, place: Place, depth: number): string {
  const prototype: unknown = Object.getPrototypeOf(live);
  if (prototype !== Object.prototype && prototype !== null) throw new NotSmall();
  if (Object.getOwnPropertySymbols(live).length > 0) throw new NotSmall();
  // Plain, and read by its own keys only.
  const source = live as Readonly<Record<string, unknown>>;
  place.frozen = isFrozen(live, place);
  let walked = place.shape === "object" ? walk(source, place, depth) : "other keys";
  if (walked === "other keys") {
    learn(live, place);
    walked = walk(source, place, depth);
  }
  if (walked === "rearranged") arrange(place);
  if (walked !== "same") putTogether(place);
  place.whole = true;
  return place.text;
}

/** What was never frozen will not be as a rule: then it is asked only now and then. To miss it costs time, no more. */
function isFrozen(live: object, place: Place): boolean {
  place.asked += 1;
  if (place.everFrozen || place.asked <= 4 || place.asked % 16 === 0) {
    const frozen = Object.isFrozen(live);
    if (frozen) place.everFrozen = true;
    return frozen;
  }
  return false;
}

/** Keys and values in one loop over the object itself: looking each key up would cost as much as all the rest. */
function walk(
  source: Readonly<Record<string, unknown>>,
  place: Place,
  depth: number,
): "same" | "changed" | "rearranged" | "other keys" {
  const { enumerated } = place;
  let rearranged = !place.whole;
  let changed = rearranged;
  let i = 0;
  place.whole = false;
  for (const key in source) {
    const member = enumerated[i++];
    if (member === undefined || member.key !== key) return "other keys";
    const value = source[key];
    if (value === member.same) continue;
    if (typeof value === "object" && value !== null) {
      const below = (member.place ??= newPlace());
      const content = containerText(value, below, depth + 1);
      member.same = below.frozen ? value : NOTHING;
      if (!below.frozen) place.frozen = false;
      if (member.version === below.version) continue;
      member.version = below.version;
      if (rewrite(member, content)) rearranged = true;
    } else {
      member.version = 0;
      member.same = NOTHING;
      if (rewrite(member, scalarText(value))) rearranged = true;
      member.same = value;
    }
    changed = true;
  }
  if (i !== enumerated.length) return "other keys";
  if (rearranged) return "rearranged";
  return changed ? "changed" : "same";
}

/** True when the member was taken for one that does not change. */
function rewrite(member: Member, content: string): boolean {
  const first = member.text === "";
  member.text = member.before + content;
  if (first || member.restless) return first;
  member.restless = true;
  return true;
}

function arrange(place: Place): void {
  const between: string[] = [];
  // Joined, not added up: these are read at every save, and should lie in one piece.
  let quiet: string[] = place.members.length === 0 ? ["{"] : [];
  for (const member of place.members) {
    if (member.restless) {
      between.push(quiet.join(""));
      quiet = [];
    } else quiet.push(member.text);
  }
  quiet.push("}");
  between.push(quiet.join(""));
  place.between = between;
  place.restless = place.members.filter((member) => member.restless);
}

function putTogether(place: Place): void {
  const { restless, between } = place;
  let text = between[0] ?? "";
  for (let i = 0; i < restless.length; i++) text += (restless[i]?.text ?? "") + (between[i + 1] ?? "");
  place.text = text;
  place.version += 1;
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
    return { key, before, place: undefined, version: 0, restless: false, same: NOTHING, text: "" };
  });
  const byKey = new Map(place.members.map((member) => [member.key, member]));
  place.enumerated = keys.flatMap((key) => byKey.get(key) ?? []);
  place.shape = "object";
  place.whole = false;
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

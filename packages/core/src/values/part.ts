import type { Json } from "../json.ts";
import { isAscending } from "./build-object.ts";
import { corrupt } from "./corrupt.ts";
import { MAX_ENTRIES, MAX_LOGICAL_BYTES } from "./limits.ts";
import type { Level, Page, Stored } from "./memo.ts";

/** What one chunk tells: a whole value, or a part of a container or of a long string. */
export type Part = LeafPart | ArrayPart | ObjectPart | TextPart;

interface LeafPart {
  readonly kind: "leaf";
  readonly value: Json;
  readonly height: number;
  readonly logical: number;
  /** Longer than a chunk of JSON is elsewhere: an element of an array. */
  readonly isFramed: boolean;
}

export interface ArrayPart {
  readonly kind: "array";
  readonly elements: readonly Json[];
  /** Of the tallest element. */
  readonly height: number;
  readonly logical: number;
  /** Of the pages in this part, itself last. */
  readonly levels: readonly Level[];
}

export interface ObjectPart {
  readonly kind: "object";
  readonly keys: readonly string[];
  readonly values: readonly Json[];
  readonly height: number;
  readonly logical: number;
  readonly levels: readonly Level[];
}

interface TextPart {
  readonly kind: "text";
  readonly text: string;
  readonly logical: number;
  /** 1 for a piece. */
  readonly level: number;
}

type PartOf<Kind extends Part["kind"]> = Extract<Part, { readonly kind: Kind }>;

/** Of an upper page: its children must be of one kind and of the level right below. */
export function partsBelow<Kind extends "array" | "object" | "text">(
  kind: Kind,
  level: number,
  parts: readonly Part[],
): readonly PartOf<Kind>[] {
  const below: PartOf<Kind>[] = [];
  let entries = 0;
  let logical = 0;
  for (const part of parts) {
    entries += entriesOf(part);
    logical += part.logical;
    if (!isKind(part, kind) || levelOf(part) !== level) throw corrupt("a page below it is of another kind or level");
    below.push(part);
  }
  // Before anything is allocated: the same page may be named again and again.
  if (entries > MAX_ENTRIES || logical > MAX_LOGICAL_BYTES) throw corrupt("it unfolds to more than a value may hold");
  return below;
}

function isKind<Kind extends Part["kind"]>(part: Part, kind: Kind): part is PartOf<Kind> {
  return part.kind === kind;
}

function levelOf(part: Part): number {
  switch (part.kind) {
    case "leaf":
      return 0;
    case "text":
      return part.level;
    case "array":
    case "object":
      return part.levels.length;
  }
}

export function entriesOf(part: Part): number {
  switch (part.kind) {
    case "leaf":
    case "text":
      return 0;
    case "array":
      return part.elements.length;
    case "object":
      return part.keys.length;
  }
}

export function joinArrays(parts: readonly ArrayPart[], chunk: Stored): ArrayPart {
  const elements = joinLists(parts.map((part) => part.elements));
  return { kind: "array", elements, ...joined(parts, elements.length, chunk) };
}

export function joinObjects(parts: readonly ObjectPart[], chunk: Stored): ObjectPart {
  const keys = joinLists(parts.map((part) => part.keys));
  if (!isAscending(keys)) throw corrupt("its keys are not in canonical order");
  return {
    kind: "object",
    keys,
    values: joinLists(parts.map((part) => part.values)),
    ...joined(parts, keys.length, chunk),
  };
}

function joined(parts: readonly (ArrayPart | ObjectPart)[], items: number, chunk: Stored) {
  let height = 0;
  let logical = 0;
  for (const part of parts) {
    height = Math.max(height, part.height);
    logical += part.logical;
  }
  const page: Page = { chunk, count: parts.length, items, logical, texts: undefined };
  const lower = (parts[0]?.levels ?? []).map((_, level) => joinLists(parts.map((part) => part.levels[level] ?? [])));
  return { height, logical, levels: [...lower, [page]] };
}

/** Several times as fast as flatMap. */
function joinLists<T>(lists: readonly (readonly T[])[]): T[] {
  const joined: T[] = [];
  for (const list of lists) for (const element of list) joined.push(element);
  return joined;
}

export function joinTexts(parts: readonly TextPart[], level: number): TextPart {
  let text = "";
  let logical = 0;
  for (const part of parts) {
    text += part.text;
    logical += part.logical;
  }
  return { kind: "text", text, logical, level };
}

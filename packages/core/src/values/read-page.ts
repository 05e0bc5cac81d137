import { type Json, isJsonArray, isJsonObject } from "../json.ts";
import { isAscending } from "./build-object.ts";
import { corrupt } from "./corrupt.ts";
import { parseFrozen } from "./freeze-json.ts";
import { LongTexts } from "./long-texts.ts";
import type { Encoding, Stored } from "./memo.ts";
import type { ParsedArray, ParsedObject } from "./parse-chunk.ts";
import type { ArrayPart, ObjectPart } from "./part.ts";

/** A child of a page, whole. */
export interface Child {
  readonly value: Json;
  /** 0 for a scalar. */
  readonly height: number;
  readonly encoding: Encoding;
}

export function readArrayPage(parsed: ParsedArray, children: readonly Child[], chunk: Stored): ArrayPart {
  const inline = inlineElements(parsed.text);
  const elements: Json[] = [];
  let from = 0;
  let next = 0;
  for (let i = 0; i < parsed.runs.length; i += 2) {
    const gap = parsed.runs[i] ?? 0;
    const count = parsed.runs[i + 1] ?? 0;
    if (from + gap > inline.values.length) throw corrupt("its runs name more inline values than it has");
    for (let k = 0; k < gap; k += 1) elements.push(inline.values[from + k] ?? null);
    for (const child of children.slice(next, next + count)) elements.push(child.value);
    from += gap;
    next += count;
  }
  for (const value of inline.values.slice(from)) elements.push(value);
  if (elements.length === 0) throw corrupt("it is a page without entries");
  const inlineBytes = inline.values.length === 0 ? 0 : parsed.textBytes - inline.values.length - 1;
  const { height, logical, texts } = sumOf(children, Math.max(inline.height - 1, 0), inlineBytes);
  const count = elements.length;
  return { kind: "array", elements, height, logical, levels: [[{ chunk, count, items: count, logical, texts }]] };
}

export function readObjectPage(parsed: ParsedObject, children: readonly Child[], chunk: Stored): ObjectPart {
  const inline = inlinePairs(parsed.text);
  const childKeys = keysOf(parsed.keys);
  if (childKeys.length !== children.length) throw corrupt("its keys and its references differ in number");
  const keys: string[] = [];
  const values: Json[] = [];
  let next = 0;
  for (const [at, key] of childKeys.entries()) {
    for (; (inline.keys[next] ?? key) < key; next += 1) {
      keys.push(inline.keys[next] ?? "");
      values.push(inline.object[inline.keys[next] ?? ""] ?? null);
    }
    keys.push(key);
    values.push(children[at]?.value ?? null);
  }
  for (const key of inline.keys.slice(next)) {
    keys.push(key);
    values.push(inline.object[key] ?? null);
  }
  if (keys.length === 0 || !isAscending(keys)) throw corrupt("its keys are not in canonical order");
  const brackets = (inline.keys.length === 0 ? 0 : inline.keys.length + 1) + (childKeys.length === 0 ? 0 : 1);
  const { height, logical, texts } = sumOf(children, Math.max(inline.height - 1, 0), parsed.textBytes - brackets);
  const count = keys.length;
  return { kind: "object", keys, values, height, logical, levels: [[{ chunk, count, items: count, logical, texts }]] };
}

function sumOf(children: readonly Child[], inlineHeight: number, inlineBytes: number) {
  const texts = new LongTexts();
  let height = inlineHeight;
  let logical = inlineBytes;
  for (const child of children) {
    height = Math.max(height, child.height);
    logical += child.encoding.logical;
    texts.add(child.value, child.encoding);
  }
  return { height, logical, texts: texts.found };
}

function inlineElements(text: string): { readonly values: readonly Json[]; readonly height: number } {
  if (text === "") return { values: [], height: 0 };
  const { value, height } = parseFrozen(text);
  if (!isJsonArray(value)) throw corrupt("its inline values are not an array");
  return { values: value, height };
}

function inlinePairs(text: string) {
  if (text === "") return { object: {}, keys: [], height: 0 };
  const { value, height } = parseFrozen(text);
  if (!isJsonObject(value)) throw corrupt("its inline pairs are not an object");
  const keys = Object.keys(value);
  return { object: value, keys: isAscending(keys) ? keys : keys.sort(), height };
}

function keysOf(text: string): readonly string[] {
  if (text === "") return [];
  const { value } = parseFrozen(text);
  const keys = isJsonArray(value) ? value.filter((key) => typeof key === "string") : [];
  if (!isJsonArray(value) || keys.length !== value.length) throw corrupt("its keys are not strings");
  return keys;
}

import { type Json, type JsonArray, type JsonContainer, type JsonObject, isJsonArray, isJsonObject } from "../json.ts";
import { arrayPages } from "./array-pages.ts";
import { capturedJson } from "./canonical-json.ts";
import { baseOf, unlinkBase } from "./captured.ts";
import { checkSize } from "./check-size.ts";
import { commonPrefix } from "./common-prefix.ts";
import { topOf } from "./encode-text.ts";
import type { EncodingContext } from "./encoding-context.ts";
import { LEAF_MAX } from "./limits.ts";
import { isFramed, isLongerThan } from "./lower-bound.ts";
import type { Encoding, Level } from "./memo.ts";
import { objectPages } from "./object-pages.ts";
import { TAGS } from "./page-format.ts";
import { sortedKeys } from "./sorted-keys.ts";
import { stackLevels } from "./upper-levels.ts";

/**
 * A container longer than one leaf, and every such container inside it that has no encoding yet, innermost first.
 * The order comes from a list, not from recursion: nesting must not eat the stack.
 */
export function encodeContainer(
  context: EncodingContext,
  value: JsonContainer,
  isLong: (child: JsonContainer) => boolean = isSurelyLong,
): Encoding {
  const { memo } = context;
  const pending: { readonly value: JsonContainer; opened: boolean }[] = [{ value, opened: false }];
  for (let next = pending.at(-1); next !== undefined; next = pending.at(-1)) {
    if (next.opened || memo.encoding(next.value) !== undefined) {
      pending.pop();
      if (memo.encoding(next.value) === undefined) memo.setEncoding(next.value, encodePages(context, next.value));
    } else {
      next.opened = true;
      const inArray = isJsonArray(next.value);
      for (const child of freshChildren(next.value)) {
        if (memo.encoding(child) !== undefined || (inArray && isFramed(child))) continue;
        if (isLong(child)) pending.push({ value: child, opened: false });
      }
    }
  }
  const encoding = memo.encoding(value);
  if (encoding === undefined) throw new RangeError("a container was passed over");
  return encoding;
}

export function isSurelyLong(value: JsonContainer): boolean {
  return isLongerThan(value, LEAF_MAX);
}

export function isExactlyLong(value: JsonContainer): boolean {
  return capturedJson(value).length > LEAF_MAX;
}

function encodePages(context: EncodingContext, value: JsonContainer): Encoding {
  const base = knownBase(context, value);
  const levels = levelsOf(context, value, base);
  unlinkBase(value);
  const top = topOf(levels);
  checkSize({ bytes: top.logical, entries: top.items });
  return { chunk: top.chunk, logical: top.logical + top.items + 1, levels };
}

function levelsOf(context: EncodingContext, value: JsonContainer, base: KnownBase | undefined): readonly Level[] {
  const lowest = isJsonArray(value) ? pagesOfArray(context, value, base) : pagesOfObject(context, value, base);
  const tag = isJsonArray(value) ? TAGS.arrays : TAGS.objects;
  return stackLevels({ context, tag, lowest, base: base?.levels });
}

/** What the value was captured on, if that was encoded as pages too. */
interface KnownBase {
  readonly value: JsonContainer;
  readonly front: number;
  readonly pages: Level;
  readonly levels: readonly Level[];
}

function knownBase(context: EncodingContext, value: JsonContainer): KnownBase | undefined {
  const base = baseOf(value);
  if (base === undefined) return undefined;
  const levels = context.memo.encoding(base.value)?.levels;
  const pages = levels?.[0];
  return levels === undefined || pages === undefined ? undefined : { ...base, pages, levels };
}

function pagesOfArray(context: EncodingContext, value: JsonArray, base: KnownBase | undefined): Level {
  const from = base?.value;
  if (base === undefined || !isJsonArray(from)) return arrayPages(context, value, undefined);
  return arrayPages(context, value, { value: from, pages: base.pages, front: base.front });
}

function pagesOfObject(context: EncodingContext, value: JsonObject, base: KnownBase | undefined): Level {
  const row = { value, keys: sortedKeys(value) };
  const from = base?.value;
  return objectPages(
    context,
    row,
    base && isJsonObject(from) ? { value: from, keys: sortedKeys(from), pages: base.pages } : undefined,
  );
}

/** Containers inside that the base does not have at either end: only those can be without an encoding. */
function freshChildren(value: JsonContainer): readonly JsonContainer[] {
  const base = baseOf(value);
  const children = childrenOf(value);
  const known = base === undefined ? [] : childrenOf(base.value);
  const start = commonPrefix(children, known, base?.front ?? 0);
  let end = children.length;
  for (let from = known.length; end > start && from > start && children[end - 1] === known[from - 1]; from -= 1) {
    end -= 1;
  }
  const fresh: JsonContainer[] = [];
  for (let at = start; at < end; at += 1) {
    const child = children[at];
    if (isContainer(child)) fresh.push(child);
  }
  return fresh;
}

function isContainer(value: Json | undefined): value is JsonContainer {
  return typeof value === "object" && value !== null;
}

function childrenOf(value: JsonContainer): readonly Json[] {
  return isJsonArray(value) ? value : sortedKeys(value).map((key) => value[key] ?? null);
}

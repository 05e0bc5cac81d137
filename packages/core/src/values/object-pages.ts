import type { Json, JsonObject } from "../json.ts";
import { REFERENCE_WEIGHT, inlineWeight, isCut, markOf } from "./cut.ts";
import { encodeChild } from "./encode-child.ts";
import type { EncodingContext } from "./encoding-context.ts";
import { LongTexts, textsAt } from "./long-texts.ts";
import { type Encoding, type Level, type Page, Stored } from "./memo.ts";
import { objectBytes, objectPreimage } from "./page-format.ts";
import { type PagedBase, lastNotAbove, paginate } from "./paginate.ts";

interface ObjectBase extends ObjectRow {
  readonly pages: Level;
}

/** An object and its keys in canonical order. */
interface ObjectRow {
  readonly value: JsonObject;
  readonly keys: readonly string[];
}

export function objectPages(context: EncodingContext, row: ObjectRow, base: ObjectBase | undefined): Level {
  return paginate({
    length: row.keys.length,
    base: base === undefined ? undefined : pagedBase(row, base),
    build: (from) => buildPage(context, row, from, base),
    emit: (page) => page.chunk.idIn(context.sink),
  });
}

function pagedBase(row: ObjectRow, base: ObjectBase): PagedBase {
  return {
    pages: base.pages,
    same: 0,
    isSame: (at, baseAt) => {
      const key = row.keys[at];
      return key !== undefined && key === base.keys[baseAt] && row.value[key] === base.value[key];
    },
    locate: (at) => {
      const key = row.keys[at] ?? "";
      const found = lastNotAbove(base.keys, key);
      return base.keys[found] === key && row.value[key] === base.value[key] ? found : undefined;
    },
  };
}

function buildPage(context: EncodingContext, row: ObjectRow, from: number, base: ObjectBase | undefined): Page {
  const page = new ObjectPageBuilder();
  for (let at = from; at < row.keys.length; at += 1) {
    const key = row.keys[at] ?? "";
    const child = row.value[key] ?? null;
    const known =
      typeof child === "string" && base !== undefined ? textsAt(base.pages, lastNotAbove(base.keys, key)) : undefined;
    if (page.add(context, { key, child, encoded: encodeChild(context, child, known) })) break;
  }
  return page.finish(context);
}

class ObjectPageBuilder {
  readonly #inline: string[] = [];
  readonly #keys: string[] = [];
  readonly #digests: string[] = [];
  readonly #ids: number[] = [];
  readonly #texts = new LongTexts();
  #weight = 0;
  #logical = 0;

  /** Whether the page ends with this key. The cut hangs on the key, so that a change of value seldom moves it. */
  add(
    context: EncodingContext,
    entry: { readonly key: string; readonly child: Json; readonly encoded: string | Encoding },
  ): boolean {
    const { child, encoded } = entry;
    const key = JSON.stringify(entry.key);
    let weight = key.length;
    if (typeof encoded === "string") {
      this.#inline.push(`${key}:${encoded}`);
      weight += inlineWeight(encoded);
    } else {
      this.#keys.push(key);
      this.#ids.push(encoded.chunk.idIn(context.sink));
      this.#digests.push(encoded.chunk.digest);
      this.#logical += encoded.logical;
      this.#texts.add(child, encoded);
      weight += REFERENCE_WEIGHT;
    }
    this.#weight += weight;
    const entries = this.#inline.length + this.#ids.length;
    return isCut({ mark: markOf(key), weight }, { entries, weight: this.#weight });
  }

  finish(context: EncodingContext): Page {
    const inline = this.#inline.length;
    const text = inline === 0 ? "" : `{${this.#inline.join(",")}}`;
    const keys = this.#keys.length === 0 ? "" : `[${this.#keys.join(",")}]`;
    const digest = context.hasher(objectPreimage(text, keys, this.#digests));
    const { bytes, textBytes } = objectBytes(text, keys, this.#ids);
    const count = inline + this.#ids.length;
    // Each of the two texts has one comma less than entries and two brackets; each key lacks its colon.
    const logical = this.#logical + textBytes - (inline === 0 ? 0 : inline + 1) - (keys === "" ? 0 : 1);
    return { chunk: new Stored(digest, bytes), count, items: count, logical, texts: this.#texts.found };
  }
}

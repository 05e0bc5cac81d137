import type { Json, JsonArray } from "../json.ts";
import { commonPrefix } from "./common-prefix.ts";
import { REFERENCE_WEIGHT, inlineWeight, isCut, markOf } from "./cut.ts";
import { encodeElement } from "./encode-child.ts";
import type { EncodingContext } from "./encoding-context.ts";
import { LongTexts, textsAt } from "./long-texts.ts";
import { type Encoding, type Level, type Page, Stored } from "./memo.ts";
import { arrayBytes, arrayPreimage } from "./page-format.ts";
import { type PagedBase, paginate } from "./paginate.ts";

interface ArrayBase {
  readonly value: JsonArray;
  readonly pages: Level;
  /** So many elements at its front are known to be those of the value. */
  readonly front: number;
}

export function arrayPages(context: EncodingContext, value: JsonArray, base: ArrayBase | undefined): Level {
  return paginate({
    length: value.length,
    base: base === undefined ? undefined : pagedBase(value, base),
    build: (from) => buildPage(context, value, from, base),
    emit: (page) => page.chunk.idIn(context.sink),
  });
}

/** Finding an element costs a pass over the base; one that keeps missing has too little in common to go on. */
const MAX_SEARCHES = 32;

function pagedBase(value: JsonArray, base: ArrayBase): PagedBase {
  let searches = 0;
  return {
    pages: base.pages,
    same: commonPrefix(value, base.value, base.front),
    isSame: (at, baseAt) => value[at] === base.value[baseAt],
    locate: (at) => {
      const element = value[at];
      if (typeof element !== "object" || element === null || searches >= MAX_SEARCHES) return undefined;
      searches += 1;
      const found = base.value.indexOf(element);
      return found === -1 ? undefined : found;
    },
  };
}

function buildPage(context: EncodingContext, value: JsonArray, from: number, base: ArrayBase | undefined): Page {
  const page = new ArrayPageBuilder();
  for (let at = from; at < value.length; at += 1) {
    const element: Json = value[at] ?? null;
    const known = typeof element === "string" && base !== undefined ? textsAt(base.pages, at) : undefined;
    if (page.add(context, element, encodeElement(context, element, known))) break;
  }
  return page.finish(context);
}

class ArrayPageBuilder {
  readonly #inline: string[] = [];
  readonly #digests: string[] = [];
  readonly #ids: number[] = [];
  readonly #runs: number[] = [];
  readonly #texts = new LongTexts();
  #weight = 0;
  #gap = 0;
  #logical = 0;

  /** Whether the page ends with this element. */
  add(context: EncodingContext, element: Json, child: string | Encoding): boolean {
    let mark: number;
    let weight: number;
    if (typeof child === "string") {
      this.#inline.push(child);
      this.#gap += 1;
      mark = markOf(child);
      weight = inlineWeight(child);
    } else {
      this.#ids.push(child.chunk.idIn(context.sink));
      this.#digests.push(child.chunk.digest);
      if (this.#gap > 0 || this.#runs.length === 0) this.#runs.push(this.#gap, 1);
      else this.#runs[this.#runs.length - 1] = (this.#runs.at(-1) ?? 0) + 1;
      this.#gap = 0;
      this.#logical += child.logical;
      this.#texts.add(element, child);
      mark = child.chunk.mark;
      weight = REFERENCE_WEIGHT;
    }
    this.#weight += weight;
    return isCut({ mark, weight }, { entries: this.#inline.length + this.#ids.length, weight: this.#weight });
  }

  finish(context: EncodingContext): Page {
    const inline = this.#inline.length;
    const text = inline === 0 ? "" : `[${this.#inline.join(",")}]`;
    const digest = context.hasher(arrayPreimage(text, this.#runs, this.#digests));
    const { bytes, textBytes } = arrayBytes(text, this.#runs, this.#ids);
    const count = inline + this.#ids.length;
    // "[a,b]" has one comma less than it has values, and two brackets.
    const logical = this.#logical + (inline === 0 ? 0 : textBytes - inline - 1);
    return { chunk: new Stored(digest, bytes), count, items: count, logical, texts: this.#texts.found };
  }
}

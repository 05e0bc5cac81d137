import type { Json } from "../json.ts";
import type { Encoding, Level } from "./memo.ts";

/** A list, not a map: a map would read a long string from end to end to find its place in it. */
export type Texts = readonly { readonly text: string; readonly encoding: Encoding }[];

/** Gathers the long strings of a page. Most pages have none, and then this holds nothing. */
export class LongTexts {
  #found: { text: string; encoding: Encoding }[] | undefined;

  add(value: Json, encoding: Encoding): void {
    if (typeof value !== "string") return;
    this.#found ??= [];
    this.#found.push({ text: value, encoding });
  }

  get found(): Texts | undefined {
    return this.#found;
  }
}

/** The long strings of the page that holds the entry at this place. */
export function textsAt(pages: Level, at: number): Texts | undefined {
  let start = 0;
  for (const page of pages) {
    start += page.count;
    if (at < start) return page.texts;
  }
  return pages.at(-1)?.texts;
}

export function encodingOf(texts: Texts | undefined, text: string): Encoding | undefined {
  if (texts === undefined) return undefined;
  for (const known of texts) if (known.text === text) return known.encoding;
  return undefined;
}

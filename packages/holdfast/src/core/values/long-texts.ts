import type { Json } from "../json.ts";
import type { Encoding, Level } from "./memo.ts";

/** Gathers the long strings of a page. Most pages have none, and then this holds nothing. */
export class LongTexts {
  #found: Map<string, Encoding> | undefined;

  add(value: Json, encoding: Encoding): void {
    if (typeof value !== "string") return;
    this.#found ??= new Map();
    this.#found.set(value, encoding);
  }

  get found(): ReadonlyMap<string, Encoding> | undefined {
    return this.#found;
  }
}

/** The long strings of the page that holds the entry at this place. */
export function textsAt(pages: Level, at: number): ReadonlyMap<string, Encoding> | undefined {
  let start = 0;
  for (const page of pages) {
    start += page.count;
    if (at < start) return page.texts;
  }
  return pages.at(-1)?.texts;
}

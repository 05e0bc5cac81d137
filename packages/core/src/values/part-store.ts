import type { Digest, Json, JsonContainer } from "../json.ts";
import { buildObject } from "./build-object.ts";
import { textOf } from "./byte-reader.ts";
import { hasIrregular, markIrregular, rememberCaptured } from "./captured.ts";
import { corrupt } from "./corrupt.ts";
import { escapeBytes } from "./cut-text.ts";
import { parseFrozen } from "./freeze-json.ts";
import { LEAF_MAX, MAX_DEPTH, MAX_ENTRIES } from "./limits.ts";
import { type Encoding, type Memo, Stored } from "./memo.ts";
import { TAGS } from "./page-format.ts";
import type { ParsedUpper } from "./parse-chunk.ts";
import {
  type ArrayPart,
  type ObjectPart,
  type Part,
  entriesOf,
  joinArrays,
  joinObjects,
  joinTexts,
  partsBelow,
} from "./part.ts";
import { type Child, readArrayPage, readObjectPage } from "./read-page.ts";
import type { WalkedChunk } from "./walk-chunks.ts";

/** All that was read of one value so far. Every chunk is turned into its part once, however often it is named. */
export class PartStore {
  readonly #memo: Memo | undefined;
  readonly #parts = new Map<number, { readonly part: Part; readonly chunk: Stored }>();
  readonly #children = new Map<number, Child>();
  #entriesLeft = 4 * MAX_ENTRIES;
  #root: Child | undefined;

  constructor(memo: Memo | undefined) {
    this.#memo = memo;
  }

  has(id: number): boolean {
    return this.#parts.has(id);
  }

  digestAt(id: number): Digest {
    return this.#at(id).chunk.digest;
  }

  root(): Json {
    if (this.#root === undefined) throw corrupt("it has no root");
    return this.#root.value;
  }

  /** Children first. */
  add(walked: WalkedChunk, digest: Digest | undefined): void {
    if (walked.parsed.kind === "reference") {
      if (walked.id !== undefined) throw corrupt("only a root may be a mere reference");
      this.#root = this.#child(walked.parsed.refs[0] ?? -1);
      return;
    }
    const chunk = new Stored(digest ?? UNKNOWN, walked.id ?? walked.bytes);
    const part = this.#read(walked, chunk);
    this.#entriesLeft -= entriesOf(part);
    if (this.#entriesLeft < 0) throw corrupt("its parts together unfold to more than a value may hold");
    if (walked.id === undefined) this.#root = this.#finish(part, chunk);
    else this.#parts.set(walked.id, { part, chunk });
  }

  #at(id: number): { readonly part: Part; readonly chunk: Stored } {
    const found = this.#parts.get(id);
    if (found === undefined) throw corrupt("a chunk below it was not read");
    return found;
  }

  #child(id: number): Child {
    const known = this.#children.get(id);
    if (known !== undefined) return known;
    const { part, chunk } = this.#at(id);
    const child = this.#finish(part, chunk);
    this.#children.set(id, child);
    return child;
  }

  #read(walked: WalkedChunk, chunk: Stored): Part {
    const { parsed, bytes } = walked;
    switch (parsed.kind) {
      case "json": {
        const text = textOf(bytes);
        return { kind: "leaf", ...parseFrozen(text), logical: bytes.length, isFramed: text.length > LEAF_MAX };
      }
      case "piece": {
        const content = bytes.subarray(1);
        return { kind: "text", text: textOf(content), logical: content.length + escapeBytes(content), level: 1 };
      }
      case "array":
        return readArrayPage(
          parsed,
          parsed.refs.map((id) => this.#child(id)),
          chunk,
        );
      case "object":
        return readObjectPage(
          parsed,
          parsed.refs.map((id) => this.#child(id)),
          chunk,
        );
      case "upper":
        return this.#join(parsed, chunk);
      case "reference":
        throw corrupt("only a root may be a mere reference");
    }
  }

  #join(parsed: ParsedUpper, chunk: Stored): Part {
    const parts = parsed.refs.map((id) => this.#at(id).part);
    switch (parsed.tag) {
      case TAGS.arrays:
        return joinArrays(partsBelow("array", parsed.level, parts), chunk);
      case TAGS.objects:
        return joinObjects(partsBelow("object", parsed.level, parts), chunk);
      case TAGS.pieces:
        return joinTexts(partsBelow("text", parsed.level, parts), parsed.level + 1);
    }
  }

  #finish(part: Part, chunk: Stored): Child {
    switch (part.kind) {
      case "leaf":
        return this.#remember(part.value, part.height, { chunk, logical: part.logical, levels: [] }, part.isFramed);
      case "text":
        return { value: part.text, height: 0, encoding: { chunk, logical: part.logical + 2, levels: [] } };
      case "array":
        return this.#finishContainer(part, chunk, part.elements, part.elements, true);
      case "object": {
        const { object, regular } = buildObject(part.keys, part.values);
        return this.#finishContainer(part, chunk, object, part.values, regular);
      }
    }
  }

  #finishContainer(
    part: ArrayPart | ObjectPart,
    chunk: Stored,
    value: JsonContainer,
    children: readonly Json[],
    regular: boolean,
  ): Child {
    Object.freeze(value);
    if (!regular || hasIrregular(children)) {
      markIrregular(value);
    }
    const logical = part.logical + children.length + 1;
    return this.#remember(value, part.height + 1, { chunk, logical, levels: part.levels }, false);
  }

  #remember(value: Json, height: number, encoding: Encoding, isFramed: boolean): Child {
    if (height > MAX_DEPTH) throw corrupt(`it is nested deeper than ${MAX_DEPTH} levels`);
    if (typeof value === "object" && value !== null) {
      rememberCaptured(value, height);
      if (encoding.chunk.digest !== UNKNOWN) {
        if (isFramed) this.#memo?.setElement(value, encoding);
        else this.#memo?.setEncoding(value, encoding);
      }
    }
    return { value, height, encoding };
  }
}

const UNKNOWN = "";

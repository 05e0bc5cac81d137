// Reads YAML 1.2 as plain JSON without ambiguity, and writes YAML that 1.1 and 1.2 readers understand alike.

import {
  Composer,
  Document,
  Lexer,
  LineCounter,
  type Node,
  Parser,
  type Scalar,
  type ScalarTag,
  type Tags,
  type YAMLMap,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
} from "yaml";
import { PROTO_REFUSED } from "@holdfast/core/audit-json";
import type { Json, JsonObject } from "@holdfast/core/json";
import { PROTO_KEY, pointer } from "@holdfast/core/values";
import type { HoldfastError } from "@holdfast/platform/error";
import { sentence } from "@holdfast/platform/yaml";
import { type DocumentSource, damagedDocument, invalidDocument } from "./document.ts";
import type { Remark } from "./format.ts";

/** Both start at 1. */
export interface DocumentPlace {
  readonly line: number;
  readonly column: number;
}

interface ReadYaml {
  readonly value: Json;
  readonly remarks: readonly Remark[];
  /** 1-based line of the value at a JSON pointer, or of the nearest value around it. */
  placeOf(pointer: string): DocumentPlace;
}

/** Deeper nesting is rejected while reading, before anything can recurse into it. */
const MAX_DEPTH = 200;

/**
 * Reads YAML 1.2 with the core schema. Rejects everything that two readers could interpret differently: duplicate keys,
 * merge keys, tags beyond the core ones, a second document, inexact numbers. The library finds duplicate keys in
 * quadratic time, which a hostile file could exploit, so a set is used here.
 */
export function readYaml(text: string, source: DocumentSource): ReadYaml {
  if (UNPRINTABLE.test(text)) throw damagedDocument(source, { why: "it has characters that no text has" });
  const lines = new LineCounter();
  const document = compose(text, lines, source);
  const [broken] = document.errors;
  if (broken !== undefined) {
    const { line: at, col: column } = lines.linePos(broken.pos[0]);
    throw damagedDocument(source, { why: `line ${at}: ${sentence(broken.message)}`, line: at, column, cause: broken });
  }
  const line = (node: Node | null): number => lines.linePos(node?.range?.[0] ?? 0).line;
  const walked = yamlToJson(document, ({ kind, why, path, node }) => {
    const trouble = { why, path, line: line(node) };
    return kind === "bomb" ? damagedDocument(source, trouble) : invalidDocument(source, trouble);
  });
  const [doubtful] = document.warnings;
  if (doubtful !== undefined) throw invalidDocument(source, { path: "", why: sentence(doubtful.message), line: 1 });
  return {
    value: walked.value,
    remarks: [
      ...(walked.comment === null
        ? []
        : [{ path: "", text: `comments (the first near line ${line(walked.comment)}) are not kept` }]),
      ...(walked.aliased ? [{ path: "", text: "aliases were replaced by what they stand for" }] : []),
    ],
    placeOf(pointer) {
      const { line: at, col: column } = lines.linePos(nodeAt(document, pointer)?.range?.[0] ?? 0);
      return { line: at, column };
    },
  };
}

// oxlint-disable-next-line no-control-regex
const UNPRINTABLE = /[\u0000-\u0008\u000B\u000C\u000E-\u001F]/;

function compose(text: string, lines: LineCounter, source: DocumentSource): Document.Parsed {
  const composer = new Composer({
    schema: "core",
    strict: true,
    stringKeys: true,
    uniqueKeys: false,
    intAsBigInt: true,
    prettyErrors: false,
    resolveKnownTags: false,
    logLevel: "silent",
  });
  let first: Document.Parsed | undefined;
  for (const document of composer.compose(boundedTokens(text, lines, source), true, text.length)) {
    if (first !== undefined) {
      throw invalidDocument(source, {
        path: "",
        why: "there are several documents",
        line: lines.linePos(document.range[0]).line,
      });
    }
    first = document;
  }
  if (first === undefined || text.trim() === "") throw damagedDocument(source, { why: "it is empty" });
  const { yaml } = first.directives ?? {};
  if (yaml?.explicit === true && yaml.version !== "1.2") {
    throw invalidDocument(source, { path: "", why: `there is YAML ${yaml.version}; only 1.2 is read`, line: 1 });
  }
  return first;
}

function* boundedTokens(text: string, lines: LineCounter, source: DocumentSource): ReturnType<Parser["parse"]> {
  const parser = new Parser(lines.addNewLine);
  lines.addNewLine(0);
  for (const lexeme of new Lexer().lex(text)) {
    yield* parser.next(lexeme);
    if (parser.stack.length > MAX_DEPTH) {
      const why = `it is nested deeper than ${MAX_DEPTH} levels`;
      throw damagedDocument(source, { why, line: lines.linePos(parser.offset).line });
    }
  }
  yield* parser.end();
}

function nodeAt(document: Document, pointer: string): Node | null {
  let node: Node | null = document.contents;
  for (const part of pointer.split("/").slice(1)) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    let child: unknown;
    if (isMap(node)) child = node.items.find((pair) => isScalar(pair.key) && pair.key.value === name)?.value;
    else if (isSeq(node)) child = node.items[Number(name)];
    if (!isScalar(child) && !isMap(child) && !isSeq(child)) return node;
    node = child;
  }
  return node;
}

interface YamlProblem {
  readonly why: string;
  /** JSON pointer to the problem. */
  readonly path: string;
  readonly node: Node;
  readonly kind: "unfit" | "bomb";
}

interface ConvertedYaml {
  readonly value: Json;
  /** The first node with a comment, which JSON cannot keep. */
  readonly comment: Node | null;
  readonly aliased: boolean;
}

/**
 * Converts a parsed document to plain JSON, or throws the error that `refuse` builds for the first value that JSON
 * cannot represent.
 */
function yamlToJson(document: Document, refuse: (problem: YamlProblem) => HoldfastError): ConvertedYaml {
  const walker = new Walker(refuse);
  const { contents } = document;
  const value = walker.read(contents, "");
  const outside = (document.comment ?? document.commentBefore ?? null) === null ? null : contents;
  return { value, comment: walker.comment ?? outside, aliased: walker.aliased > 0 };
}

/** Limit of values that aliases may add: a few lines could otherwise expand to terabytes. */
const MAX_ALIASED = 100_000;

const CORE_TAGS: ReadonlySet<string> = new Set(
  ["str", "int", "float", "bool", "null", "map", "seq"].map((name) => `tag:yaml.org,2002:${name}`),
);

interface Anchored {
  readonly value: Json;
  readonly size: number;
}

class Walker {
  readonly #refuse: (problem: YamlProblem) => HoldfastError;
  /** By name; null while the anchored value is being read, to detect an alias within itself. */
  readonly #anchors = new Map<string, Anchored | null>();
  #values = 0;
  aliased = 0;
  comment: Node | null = null;

  constructor(refuse: (problem: YamlProblem) => HoldfastError) {
    this.#refuse = refuse;
  }

  read(node: unknown, path: string): Json {
    if (!isNode(node)) return null;
    this.#values += 1;
    this.#check(node, path);
    if (isAlias(node)) return this.#alias(node.source, path, node);
    const { anchor } = node;
    if (anchor === undefined) return this.#content(node, path);
    this.#anchors.set(anchor, null);
    const before = this.#values + this.aliased;
    const value = this.#content(node, path);
    this.#anchors.set(anchor, { value, size: this.#values + this.aliased - before + 1 });
    return value;
  }

  #check(node: Node, path: string): void {
    if (node.comment != null || node.commentBefore != null) this.comment ??= node;
    if (node.tag !== undefined && !CORE_TAGS.has(node.tag)) {
      throw this.#refused(`there is the tag ${node.tag}, which is not of the core schema`, path, node);
    }
  }

  #content(node: Node, path: string): Json {
    if (isScalar(node)) return this.#scalar(node, path);
    if (isSeq(node)) return node.items.map((item, index) => this.read(item, `${path}/${index}`));
    if (isMap(node)) return this.#map(node, path);
    throw this.#refused("there is something that is neither a value, a list nor a mapping", path, node);
  }

  #map(node: YAMLMap, path: string): JsonObject {
    const object: Record<string, Json> = {};
    for (const { key, value: child } of node.items) {
      if (!isScalar(key) || typeof key.value !== "string") {
        throw this.#refused("there is a key that is not a text", path, node);
      }
      const name = key.value;
      const itemPath = path + pointer([name]);
      this.#check(key, itemPath);
      this.#text(name, itemPath, key);
      if (name === "<<" && key.type === "PLAIN") {
        throw this.#refused('there is a merge key ("<<"), which YAML 1.2 does not have', itemPath, key);
      }
      if (Object.hasOwn(object, name))
        throw this.#refused("a key occurs twice, and the values may differ", itemPath, key);
      if (name === PROTO_KEY) throw this.#refused(PROTO_REFUSED, itemPath, key);
      object[name] = this.read(child, itemPath);
    }
    return object;
  }

  #scalar(node: Scalar, path: string): Json {
    const { value } = node;
    switch (typeof value) {
      case "string":
        return this.#text(value, path, node);
      case "boolean":
        return value;
      case "bigint":
        return this.#integer(value, path, node);
      case "number":
        // Adding 0 turns -0 into 0, which is its form in the store.
        if (Number.isFinite(value)) return value + 0;
        throw this.#refused(`${value} is not a JSON number`, path, node);
      default:
        if (value === null || value === undefined) return null;
        throw this.#refused("there is a value that JSON does not have", path, node);
    }
  }

  /** Accepts an integer that a double holds exactly or that is written back identically. */
  #integer(value: bigint, path: string, node: Node): number {
    const number = Number(value);
    if (String(number) === String(value)) return number;
    if (Number.isFinite(number) && BigInt(number) === value) return number;
    throw this.#refused(`${value} is too large to be kept exactly`, path, node);
  }

  #text(value: string, path: string, node: Node): string {
    if (value.isWellFormed()) return value;
    throw this.#refused("there is half of a surrogate pair, which is not a character", path, node);
  }

  #alias(name: string, path: string, node: Node): Json {
    const anchored = this.#anchors.get(name);
    if (anchored === undefined) throw this.#refused(`the alias *${name} has no anchor`, path, node);
    if (anchored === null) throw this.#refused(`the alias *${name} refers to itself`, path, node);
    this.aliased += anchored.size;
    if (this.aliased <= MAX_ALIASED) return anchored.value;
    throw this.#refused(`its aliases expand to more than ${MAX_ALIASED} values`, path, node, "bomb");
  }

  #refused(why: string, path: string, node: Node, kind: YamlProblem["kind"] = "unfit"): HoldfastError {
    return this.#refuse({ why, path, node, kind });
  }
}

/**
 * Writes block YAML that 1.2 and 1.1 readers interpret alike. Values that 1.1 would read as a date, a boolean or a
 * base-60 number are quoted. Lines are never folded, so that a change of one word changes one line. `decimal` names a member
 * whose number is written with a fraction: a version 1.0 is not written as 1.
 */
export function writeYaml(value: Json, { decimal }: { readonly decimal?: string } = {}): string {
  const options = {
    schema: "core",
    compat: "yaml-1.1",
    lineWidth: 0,
    aliasDuplicateObjects: false,
    customTags,
  } as const;
  const document = new Document(value, options);
  const number: unknown = decimal === undefined ? undefined : document.get(decimal, true);
  if (isScalar(number)) number.minFractionDigits = 1;
  return document.toString(options);
}

/** Characters that some readers drop, fold or treat as a line end; the library writes several of them unescaped. */
// oxlint-disable-next-line no-control-regex
const UNSAFE = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u2028\u2029\uFEFF\uFFFE\uFFFF]/;
// oxlint-disable-next-line no-control-regex
const UNSAFE_IN_JSON = /[\u007F-\u009F\u2028\u2029\uFEFF\uFFFE\uFFFF]/g;

/**
 * A block that begins with white space needs an indentation indicator, which the library does not always write
 * correctly.
 */
function isUnsafe(value: string): boolean {
  const first = value.charCodeAt(0);
  return ((first === 0x20 || first === 0x09 || first === 0x0a) && value.includes("\n")) || UNSAFE.test(value);
}

function customTags(tags: Tags): Tags {
  return tags.map((tag) =>
    typeof tag === "object" && tag.collection === undefined && tag.tag === "tag:yaml.org,2002:str" ? quoting(tag) : tag,
  );
}

function quoting(tag: ScalarTag): ScalarTag {
  return {
    ...tag,
    stringify(item, ...rest) {
      const { value } = item;
      if (typeof value !== "string" || !isUnsafe(value)) return tag.stringify?.(item, ...rest) ?? String(value);
      return JSON.stringify(value).replace(
        UNSAFE_IN_JSON,
        (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
      );
    },
  };
}

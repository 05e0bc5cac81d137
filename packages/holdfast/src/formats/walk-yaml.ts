import { isAlias, isMap, isNode, isScalar, isSeq } from "yaml";
import type { Document, Node, Scalar, YAMLMap } from "yaml";
import type { HoldfastError } from "../core/error.ts";
import type { Json, JsonObject } from "../core/json.ts";

export interface YamlProblem {
  readonly why: string;
  /** JSON pointer. */
  readonly path: string;
  readonly node: Node;
  readonly kind: "unfit" | "bomb";
}

export interface Walked {
  readonly value: Json;
  /** The first node that has a comment, which JSON cannot keep. */
  readonly comment: Node | null;
  readonly aliased: boolean;
}

/** Turns a parsed document into plain JSON, or throws what `refuse` makes of the first thing that JSON cannot say. */
export function walkYaml(document: Document, refuse: (problem: YamlProblem) => HoldfastError): Walked {
  const walker = new Walker(refuse);
  const { contents } = document;
  const value = walker.read(contents, "");
  const outside = (document.comment ?? document.commentBefore ?? null) === null ? null : contents;
  return { value, comment: walker.comment ?? outside, aliased: walker.aliased > 0 };
}

/** Values that aliases may add to a document: a few lines of them can otherwise stand for terabytes. */
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
  /** By name; null while the anchored value is still being read, so that one inside of itself shows. */
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
      const place = `${path}/${name.includes("/") || name.includes("~") ? escapePointer(name) : name}`;
      this.#check(key, place);
      this.#text(name, place, key);
      if (name === "<<" && key.type === "PLAIN") {
        throw this.#refused('there is a merge key ("<<"), which YAML 1.2 does not know', place, key);
      }
      if (Object.hasOwn(object, name))
        throw this.#refused("a key stands twice, and the two may say different things", place, key);
      const value = this.read(child, place);
      if (name !== "__proto__") object[name] = value;
      else Object.defineProperty(object, name, { value, enumerable: true, writable: true, configurable: true });
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
        // The sum turns -0 into the 0 that it is in every form that we store.
        if (Number.isFinite(value)) return value + 0;
        throw this.#refused(`${value} is no number that JSON knows`, path, node);
      default:
        if (value === null || value === undefined) return null;
        throw this.#refused("there is a value that JSON does not know", path, node);
    }
  }

  /** Held exactly, or at least written back as it was. */
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
    if (anchored === undefined) throw this.#refused(`the alias *${name} stands for nothing`, path, node);
    if (anchored === null) throw this.#refused(`the alias *${name} stands inside of itself`, path, node);
    this.aliased += anchored.size;
    if (this.aliased <= MAX_ALIASED) return anchored.value;
    throw this.#refused(`its aliases stand for more than ${MAX_ALIASED} values`, path, node, "bomb");
  }

  #refused(why: string, path: string, node: Node, kind: YamlProblem["kind"] = "unfit"): HoldfastError {
    return this.#refuse({ why, path, node, kind });
  }
}

function escapePointer(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}

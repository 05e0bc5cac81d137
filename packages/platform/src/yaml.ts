// Parses YAML that users write and keeps source positions, so that errors can name a line.

import { type Document, LineCounter, type Node, isMap, isNode, isScalar, parseDocument } from "yaml";

/** A parsed document with its line positions, so that an error can name its line. */
export interface YamlText {
  readonly document: Document;
  readonly lines: LineCounter;
}

export interface YamlProblem {
  /** Start and end offsets in the text. */
  readonly range: readonly number[];
  readonly message: string;
}

/** Returns the plain value of a YAML text, or all its syntax errors. */
export function parseYaml(
  text: string,
): YamlText &
  ({ readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly faults: readonly YamlProblem[] }) {
  const lines = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    schema: "core",
    strict: true,
    uniqueKeys: true,
  });
  const broken = [...document.errors, ...document.warnings];
  if (broken.length > 0) {
    const faults = broken.map(({ pos, message }) => ({ range: pos, message: sentence(message) }));
    return { document, lines, ok: false, faults };
  }
  try {
    // Alias expansion can turn a small file into a huge value. The library counts aliases and throws above the limit.
    return { document, lines, ok: true, value: document.toJS({ maxAliasCount: 100 }) };
  } catch (error) {
    const message = sentence(error instanceof Error ? error.message : String(error));
    return { document, lines, ok: false, faults: [{ range: [0, 1], message }] };
  }
}

/** Returns the node of the key at the end of this path, not the node of its value. */
export function keyNode(document: Document, path: readonly PropertyKey[]): Node | undefined {
  const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  if (!isMap(parent)) return undefined;
  const key = parent.items.find((pair) => isScalar(pair.key) && String(pair.key.value) === String(path.at(-1)))?.key;
  return isNode(key) ? key : undefined;
}

/** Removes the position and the source excerpt from a library message, because our messages add their own. */
export function sentence(message: string): string {
  return (message.split("\n")[0] ?? "").replace(/ at line \d+, column \d+:?$/, "");
}

import { type Document, LineCounter, type Node, isMap, isNode, isScalar, parseDocument } from "yaml";

/** YAML that a person wrote, and where in it things stand, so that whatever is wrong can be told at its line. */
export interface YamlText {
  readonly document: Document;
  readonly lines: LineCounter;
}

export interface YamlProblem {
  /** Offsets of its beginning and its end. */
  readonly range: readonly number[];
  readonly message: string;
}

/** The plain value of a text, or all that is wrong with it as YAML. */
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
    // Expanding aliases is where a small file can become a large one; the library counts and throws.
    return { document, lines, ok: true, value: document.toJS({ maxAliasCount: 100 }) };
  } catch (error) {
    const message = sentence(error instanceof Error ? error.message : String(error));
    return { document, lines, ok: false, faults: [{ range: [0, 1], message }] };
  }
}

/** The key at the end of this path, not its value. */
export function keyNode(document: Document, path: readonly PropertyKey[]): Node | undefined {
  const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  if (!isMap(parent)) return undefined;
  const key = parent.items.find((pair) => isScalar(pair.key) && String(pair.key.value) === String(path.at(-1)))?.key;
  return isNode(key) ? key : undefined;
}

/** Library messages may carry a position or a picture of their own; ours is shown beside it. */
function sentence(message: string): string {
  return (message.split("\n")[0] ?? "").replace(/ at line \d+, column \d+:?$/, "");
}

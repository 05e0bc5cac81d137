import { LineCounter, isMap, isNode, isScalar, parseDocument, type Document } from "yaml";
import { nearest } from "../core/nearest.ts";
import { knownScriptKeys, scriptSchema, type Script } from "./script-schema.ts";

export type ParsedScript =
  | { readonly ok: true; readonly script: Script }
  /** One text a problem, `line:column: what`, with the line below it. */
  | { readonly ok: false; readonly problems: readonly string[] };

/** Pure: the text of a script (YAML, or JSON, which is YAML too) in, the script or all that is wrong with it out. */
export function parseScript(text: string): ParsedScript {
  const counter = new LineCounter();
  const document = parseDocument(text, { lineCounter: counter, prettyErrors: false, strict: true, uniqueKeys: true });
  const at = (start: number, message: string): Problem => ({ ...counter.linePos(start), message });
  if (document.errors.length > 0)
    return failed(
      text,
      document.errors.map(({ pos, message }) => at(pos[0], message)),
    );
  const plain = toPlain(document);
  if (!plain.ok) return failed(text, [at(0, plain.message)]);
  const result = scriptSchema.safeParse(plain.value);
  if (result.success) return { ok: true, script: result.data };
  return failed(
    text,
    result.error.issues.flatMap((issue) =>
      explain(issue).map((told) => at(startOf(document, told.path), told.message)),
    ),
  );
}

interface Problem {
  readonly line: number;
  readonly col: number;
  readonly message: string;
}

interface Issue {
  readonly code?: string | undefined;
  readonly path: readonly PropertyKey[];
  readonly message: string;
  readonly keys?: readonly string[];
}

/** Expanding aliases is where a small file can become a large one; the library counts and throws. */
function toPlain(
  document: Document,
): { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly message: string } {
  try {
    return { ok: true, value: document.toJS({ maxAliasCount: 100 }) };
  } catch (error) {
    return { ok: false, message: error instanceof Error ? error.message : String(error) };
  }
}

function explain(issue: Issue): readonly { readonly path: readonly PropertyKey[]; readonly message: string }[] {
  if (issue.code !== "unrecognized_keys") {
    const missing = issue.message.startsWith("Invalid input") ? "expected keys and values" : issue.message;
    return [{ path: issue.path, message: `${nameOf(issue.path)}: ${missing}` }];
  }
  const known = knownScriptKeys(issue.path);
  return (issue.keys ?? []).map((key) => {
    const [guess] = nearest(key, known);
    const help = guess === undefined ? `known: ${known.join(", ")}` : `did you mean ${guess}?`;
    return {
      path: [...issue.path, key],
      message: `${nameOf(issue.path)}: unknown key "${key}"${known.length === 0 ? "" : `; ${help}`}`,
    };
  });
}

function nameOf(path: readonly PropertyKey[]): string {
  if (path.length === 0) return "the script";
  return path
    .map((key) => (typeof key === "number" ? `[${key}]` : `.${String(key)}`))
    .join("")
    .replace(/^\./, "");
}

/** Where the thing is, or the nearest thing around it that is there. */
function startOf(document: Document, path: readonly PropertyKey[]): number {
  for (let depth = path.length; depth > 0; depth -= 1) {
    const place = path.slice(0, depth);
    const parent = depth === 1 ? document.contents : document.getIn(place.slice(0, -1), true);
    const key = isMap(parent)
      ? parent.items.find((pair) => isScalar(pair.key) && String(pair.key.value) === String(place.at(-1)))?.key
      : document.getIn(place, true);
    if (isNode(key) && key.range) return key.range[0];
  }
  return document.contents?.range?.[0] ?? 0;
}

function failed(text: string, problems: readonly Problem[]): ParsedScript {
  const lines = text.split(/\r?\n/);
  const sorted = problems.toSorted((a, b) => a.line - b.line || a.col - b.col);
  return {
    ok: false,
    problems: sorted.map(
      ({ line, col, message }) =>
        `${line}:${col}: ${message.split("\n")[0] ?? ""}\n  ${(lines[line - 1] ?? "").trim()}`,
    ),
  };
}

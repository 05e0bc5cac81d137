/** Sets keys in the text of a holdfast.config.yaml and keeps all other lines. */
import { Document, isMap, isScalar, parseDocument, stringify } from "yaml";

/** A key by its path (one or two names), and its new value. */
export interface ConfigEdit {
  readonly key: readonly string[];
  readonly value: string;
}

/**
 * Returns the text with these keys set and every other line, including comments, unchanged. The text must parse; "" is
 * an empty file.
 */
export function editConfig(text: string, edits: readonly ConfigEdit[]): string {
  return edits.reduce(editOne, text);
}

function editOne(text: string, edit: ConfigEdit): string {
  const document = parseDocument(text, { schema: "core" });
  const edited = editLine(text, document, edit);
  // A file in an unusual form (`{ … }`, aliases) is rewritten: a correct value matters more than the formatting.
  return edited !== null && parseDocument(edited).getIn(edit.key) === edit.value ? edited : rewrite(document, edit);
}

/** Edits single lines, because the YAML library would re-indent comments. null: this form is not supported. */
function editLine(text: string, document: Document.Parsed, { key, value }: ConfigEdit): string | null {
  const node: unknown = document.getIn(key, true);
  const line = `${key.at(-1) ?? ""}: ${stringify(value, { lineWidth: 0 }).trim()}`;
  if (isScalar(node) && node.range) {
    const [start, end] = node.range;
    return `${text.slice(0, start)}${stringify(value, { lineWidth: 0 }).trim()}${text.slice(end)}`;
  }
  const lines = text.split("\n");
  if (key.length === 1) {
    if (document.contents !== null && !isMap(document.contents)) return null;
    return insert(lines, lines.findIndex((one) => one.startsWith(`# ${key[0]}:`)) + 1, line);
  }
  const parent: unknown = document.getIn(key.slice(0, -1), true);
  if (!document.has(key[0])) return insert(lines, 0, `${key[0]}:\n  ${line}`);
  const head = lines.findIndex((one) => one.startsWith(`${key[0]}:`));
  if (!isMap(parent) || parent.flow === true || head === -1) return null;
  const after = lines.findIndex((one, at) => at > head && /^\S/.test(one) && !one.startsWith("#"));
  const body = lines.slice(head + 1, after === -1 ? undefined : after);
  const indent = body.map((one) => /^( +)[^\s#]/.exec(one)?.[1]).find((found) => found !== undefined) ?? "  ";
  const example = body.findIndex((one) => one.startsWith(`${indent}# ${key.at(-1)}:`));
  return insert(lines, head + 1 + (example === -1 ? 0 : example + 1), indent + line);
}

/** `at` 0 appends at the end. */
function insert(lines: readonly string[], at: number, line: string): string {
  if (at > 0) return lines.toSpliced(at, 0, line).join("\n");
  const text = lines.join("\n");
  return `${text}${text === "" || text.endsWith("\n") ? "" : "\n"}${line}\n`;
}

function rewrite(document: Document.Parsed, { key, value }: ConfigEdit): string {
  // `impl:` without a value is null, and a key cannot be set inside null.
  for (let depth = 0; depth < key.length; depth += 1) {
    const path = key.slice(0, depth);
    const node: unknown = depth === 0 ? document.contents : document.getIn(path, true);
    if (!isMap(node)) document.setIn(path, document.createNode({}));
  }
  document.setIn(key, value);
  return document.toString({ lineWidth: 0 });
}

import { Composer, LineCounter, isMap, isScalar, isSeq, Lexer, Parser } from "yaml";
import type { Document, Node } from "yaml";
import type { Json } from "../core/json.ts";
import type { Remark } from "./format.ts";
import { damagedDocument, invalidDocument } from "./refusals.ts";
import type { Source } from "./refusals.ts";
import { walkYaml } from "./walk-yaml.ts";

export interface ReadYaml {
  readonly value: Json;
  readonly remarks: readonly Remark[];
  /** 1-based line of the value at a JSON pointer, or of the nearest one around it. */
  lineOf(pointer: string): number;
}

/** Containers nested deeper are refused while they are read, before anything can recurse into them. */
const MAX_DEPTH = 200;

/**
 * YAML 1.2 with the core schema, and nothing that two readers could take for two things: a repeated key, a merge key, a
 * tag beyond the core ones, a second document, a number that no double holds are refused, never settled in silence.
 * The library looks for repeated keys by comparing all with all, which minutes-long is a bomb of its own; here a set does.
 */
export function readYaml(text: string, source: Source): ReadYaml {
  if (UNPRINTABLE.test(text)) throw damagedDocument(source, { why: "it has characters that no text has" });
  const lines = new LineCounter();
  const document = compose(text, lines, source);
  const [broken] = document.errors;
  if (broken !== undefined) {
    const at = lines.linePos(broken.pos[0]).line;
    throw damagedDocument(source, { why: `line ${at}: ${sentence(broken.message)}`, line: at, cause: broken });
  }
  const line = (node: Node | null): number => lines.linePos(node?.range?.[0] ?? 0).line;
  const walked = walkYaml(document, ({ kind, why, path, node }) => {
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
    lineOf: (pointer) => line(nodeAt(document, pointer)),
  };
}

// oxlint-disable-next-line no-control-regex
const UNPRINTABLE = /[\u0000-\u0008\u000B\u000C\u000E-\u001F]/;

function compose(text: string, lines: LineCounter, source: Source): Document.Parsed {
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

function* boundedTokens(text: string, lines: LineCounter, source: Source): ReturnType<Parser["parse"]> {
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

/** The library adds a position and a picture to some of its messages; ours stands beside them. */
function sentence(message: string): string {
  return (message.split("\n")[0] ?? "").replace(/ at line \d+, column \d+:?$/, "");
}

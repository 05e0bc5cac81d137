import { Composer, LineCounter, isMap, isScalar, isSeq, Lexer, Parser } from "yaml";
import type { Document, Node } from "yaml";
import { HoldfastError } from "../core/error.ts";
import type { ErrorCode } from "../core/error.ts";
import type { Json } from "../core/json.ts";
import type { Remark } from "./format.ts";
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
export function readYaml(text: string, what: string): ReadYaml {
  const lines = new LineCounter();
  const document = compose(text, lines, what);
  const [broken] = document.errors;
  if (broken !== undefined) {
    throw refused({ what, why: sentence(broken.message), code: "FORMAT_DAMAGED", line: lines.linePos(broken.pos[0]).line });
  }
  const line = (node: Node | null): number => lines.linePos(node?.range?.[0] ?? 0).line;
  const walked = walkYaml(document, (problem) =>
    refused({ what, why: problem.why, path: problem.path, code: problem.code, line: line(problem.node) }),
  );
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

function compose(text: string, lines: LineCounter, what: string): Document.Parsed {
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
  for (const document of composer.compose(boundedTokens(text, lines, what), true, text.length)) {
    if (first !== undefined) {
      throw refused({ what, why: "it holds several documents", line: lines.linePos(document.range[0]).line });
    }
    first = document;
  }
  if (first === undefined) throw refused({ what, why: "it is empty", code: "FORMAT_DAMAGED" });
  const { yaml } = first.directives ?? {};
  if (yaml?.explicit === true && yaml.version !== "1.2") {
    throw refused({ what, why: `it says that it is YAML ${yaml.version}; only 1.2 is read`, line: 1 });
  }
  return first;
}

function* boundedTokens(text: string, lines: LineCounter, what: string): ReturnType<Parser["parse"]> {
  const parser = new Parser(lines.addNewLine);
  lines.addNewLine(0);
  for (const lexeme of new Lexer().lex(text)) {
    yield* parser.next(lexeme);
    if (parser.stack.length > MAX_DEPTH) {
      const why = `it is nested deeper than ${MAX_DEPTH} levels`;
      throw refused({ what, why, code: "FORMAT_DAMAGED", line: lines.linePos(parser.offset).line });
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

function refused(problem: {
  readonly what: string;
  readonly why: string;
  readonly path?: string;
  readonly code?: ErrorCode;
  readonly line?: number;
}): HoldfastError {
  const { what, why, path = "", code = "FORMAT_INVALID", line } = problem;
  return new HoldfastError({
    code,
    message: `${what} cannot be read${line === undefined ? "" : ` (line ${line})`}: ${why}`,
    hint:
      code === "FORMAT_DAMAGED"
        ? "Take an earlier checkpoint, or repair the file by hand."
        : "Write that line in plain YAML 1.2, as `key: value`, and try again.",
    data: { path, ...(line === undefined ? {} : { line }) },
  });
}

/** The library adds a position and a picture to some of its messages; ours stands beside them. */
function sentence(message: string): string {
  return (message.split("\n")[0] ?? "").replace(/ at line \d+, column \d+:?$/, "");
}

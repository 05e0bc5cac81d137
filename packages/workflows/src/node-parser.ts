import { readFile } from "node:fs/promises";
import { stripTypeScriptTypes } from "node:module";
import { text } from "node:stream/consumers";
import vm from "node:vm";
import { LineCounter, parseAllDocuments } from "yaml";
import { blankComments, findJsonError } from "./json-error.ts";
import type { BatchFile, ParseAnswer } from "./syntax-gate.ts";

/**
 * The process that parses what Node can: it reads a list of files on standard input and prints an answer a line. A process of its
 * own, because a parser that chokes on a strange file must not take the run with it. Nothing is executed, only compiled.
 */

text(process.stdin)
  // Written by our own parent.
  .then((input) => answerAll(JSON.parse(input) as readonly BatchFile[]))
  .catch((error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  });

async function answerAll(files: readonly BatchFile[]): Promise<void> {
  for (const file of files) process.stdout.write(`${JSON.stringify(await answer(file))}\n`);
}

async function answer(file: BatchFile): Promise<ParseAnswer> {
  try {
    const source = new TextDecoder("utf-8", { fatal: true }).decode(await readFile(file.path));
    return parse(source, file);
  } catch (error) {
    if (error instanceof TypeError) return { kind: "failed", line: null, message: "it is not UTF-8" };
    return { kind: "skipped", why: error instanceof Error ? error.message : String(error) };
  }
}

function parse(source: string, file: BatchFile): ParseAnswer {
  switch (file.grammar) {
    case "json":
      return parseJson(source);
    case "json with comments":
      return parseJson(blankComments(source));
    case "yaml":
      return parseYaml(source, file.path);
    case "typescript":
      return parseTypeScript(source);
    case "module":
      return explainScript(parseModule(source), source);
    case "script":
      return explainScript(parseFunction(source), source);
    default:
      return parseEither(source);
  }
}

function attempt(work: () => unknown): ParseAnswer {
  try {
    work();
    return { kind: "parsed" };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return { kind: "failed", line: lineOf(error), message: messageOf(error) };
  }
}

/** V8 and the TypeScript parser put `name:line` before the stack. */
function lineOf(error: SyntaxError): number | null {
  const told = /^[^\n]*:(\d+)\n/.exec(error.stack ?? "")?.[1];
  return told === undefined ? null : Number(told);
}

function messageOf(error: SyntaxError): string {
  return error.message.split("\n")[0] ?? "";
}

function parseJson(source: string): ParseAnswer {
  const found = findJsonError(source);
  return found === null ? { kind: "parsed" } : { kind: "failed", ...found };
}

function parseYaml(source: string, path: string): ParseAnswer {
  const lineCounter = new LineCounter();
  const documents = parseAllDocuments(source, { lineCounter, prettyErrors: false, logLevel: "silent" });
  const error = [...documents].flatMap((document) => document.errors)[0];
  if (error === undefined) return { kind: "parsed" };
  if (/(?:^|\/)templates\//.test(path) && source.includes("{{"))
    return { kind: "skipped", why: "it is a template that becomes YAML later" };
  return { kind: "failed", line: lineCounter.linePos(error.pos[0]).line, message: error.message.split("\n")[0] ?? "" };
}

function parseTypeScript(source: string): ParseAnswer {
  try {
    stripTypeScriptTypes(source);
    return { kind: "parsed" };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    // Enums, namespaces and the like: the parser has read all of the file, only stripping cannot make JavaScript of it.
    if ("code" in error && error.code === "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX") return { kind: "parsed" };
    return { kind: "failed", line: lineOf(error), message: messageOf(error) };
  }
}

/** As the body of a function, which is what CommonJS is: `return` is allowed, `import` is not. */
function parseFunction(source: string): ParseAnswer {
  return attempt(() => vm.compileFunction(source.replace(/^#!/, "//"), [], { filename: "file" }));
}

function parseModule(source: string): ParseAnswer {
  const parsed = attempt(() => new vm.SourceTextModule(source, { identifier: "file" }));
  if (parsed.kind !== "failed") return parsed;
  // V8 keeps the place of a module's error to itself; the TypeScript parser mostly stumbles over the same thing.
  const second = parseTypeScript(source);
  return { ...parsed, line: second.kind === "failed" ? second.line : null };
}

/** A .js file is one or the other, and what stands in package.json may be about to change. */
function parseEither(source: string): ParseAnswer {
  const script = parseFunction(source);
  if (script.kind === "parsed") return script;
  const module = parseModule(source);
  if (module.kind === "parsed") return module;
  return explainScript(/^\s*(?:import|export)\b/m.test(source) ? module : script, source);
}

/** What build tools turn into JavaScript later is no error of the agent's. */
function explainScript(parsed: ParseAnswer, source: string): ParseAnswer {
  if (parsed.kind !== "failed") return parsed;
  if (parsed.message === "Unexpected token '<'")
    return { kind: "skipped", why: "it seems to hold JSX, which Node does not parse" };
  if (parsed.message === "Invalid or unexpected token" && /^\s*@[A-Za-z_$]/m.test(source))
    return { kind: "skipped", why: "it seems to hold decorators, which Node does not parse" };
  if (/^\s*(?:\/\/|\/\*)\s*@flow\b/m.test(source))
    return { kind: "skipped", why: "it holds Flow types, which Node does not parse" };
  return parsed;
}

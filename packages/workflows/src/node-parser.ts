// A child process that parses files for the syntax gate with what Node offers. It reads a list of files as JSON on
// standard input and prints one answer a line. A separate process protects the run from a parser that crashes or hangs.
// It compiles files but never executes them.

import { readFile } from "node:fs/promises";
import { stripTypeScriptTypes } from "node:module";
import { text } from "node:stream/consumers";
import vm from "node:vm";
import { LineCounter, parseAllDocuments } from "yaml";
import { blankComments, findJsonError } from "./json-error.ts";
import type { BatchFile, ParseAnswer } from "./syntax-gate.ts";

text(process.stdin)
  // The parent process wrote this input, so the cast is safe.
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

/** V8 and the TypeScript parser start the stack with `name:line`. */
function lineOf(error: SyntaxError): number | null {
  const line = /^[^\n]*:(\d+)\n/.exec(error.stack ?? "")?.[1];
  return line === undefined ? null : Number(line);
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
    // For enums, namespaces and the like the parser has read the whole file; only type stripping does not support them.
    if ("code" in error && error.code === "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX") return { kind: "parsed" };
    return { kind: "failed", line: lineOf(error), message: messageOf(error) };
  }
}

/** Compiles the source as a function body, as CommonJS does: `return` is allowed, `import` is not. */
function parseFunction(source: string): ParseAnswer {
  return attempt(() => vm.compileFunction(source.replace(/^#!/, "//"), [], { filename: "file" }));
}

function parseModule(source: string): ParseAnswer {
  const parsed = attempt(() => new vm.SourceTextModule(source, { identifier: "file" }));
  if (parsed.kind !== "failed") return parsed;
  // V8 does not expose the line of a module's error. The TypeScript parser usually fails at the same place.
  const second = parseTypeScript(source);
  return { ...parsed, line: second.kind === "failed" ? second.line : null };
}

/** A .js file can be either kind, and the change under test may also change `type` in package.json. */
function parseEither(source: string): ParseAnswer {
  const script = parseFunction(source);
  if (script.kind === "parsed") return script;
  const module = parseModule(source);
  if (module.kind === "parsed") return module;
  return explainScript(/^\s*(?:import|export)\b/m.test(source) ? module : script, source);
}

/** Syntax that build tools compile to JavaScript later is not an error of the agent. */
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

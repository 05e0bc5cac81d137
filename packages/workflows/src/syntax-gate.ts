// The syntax gate: checks that changed files parse, with Node, Python or a tool that reads standard input.

import { lstatSync, realpathSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, extname, isAbsolute, join, sep } from "node:path";
import type { SyntaxGate, SyntaxVerdict } from "@holdfast/core/adapters";
import { readRegularFile } from "@holdfast/platform/files";
import { type ProcessResult, findProgram, runProcess } from "@holdfast/platform/subprocess";

/**
 * Returns a verdict for every file, in the order of `paths`. Rejects with the signal's reason on abort, so that a
 * missing verdict never counts as a pass.
 */
export function createSyntaxGate(params: { readonly timeoutMs?: number; readonly path?: string } = {}): SyntaxGate {
  const timeoutMs = params.timeoutMs ?? TIMEOUT_MS;
  const find = finder(params.path ?? process.env["PATH"] ?? "");
  return {
    async check({ root, paths, signal }) {
      signal.throwIfAborted();
      const verdicts = new Map<string, SyntaxVerdict>();
      const files: PlannedFile[] = [];
      for (const path of new Set(paths)) {
        const planned = plan(root, path);
        if ("verdict" in planned) verdicts.set(path, planned.verdict);
        else files.push(planned);
      }
      const groups = await Promise.all([
        withNode(files.filter(isOf(NODE)), { signal, timeoutMs }),
        withPython(files.filter(isOf(PYTHON)), { signal, timeoutMs, find }),
        byPipe(files.filter(isOf(PIPE)), { signal, timeoutMs, find }),
      ]);
      signal.throwIfAborted();
      for (const verdict of groups.flat()) verdicts.set(verdict.path, verdict);
      return paths.flatMap((path) => verdicts.get(path) ?? []);
    },
  };
}

const TIMEOUT_MS = 60_000;
const AT_ONCE = 2;
const NODE: readonly Grammar[] = [
  "json",
  "json with comments",
  "yaml",
  "script",
  "module",
  "script or module",
  "typescript",
];
const PYTHON: readonly Grammar[] = ["python", "toml", "xml"];
const PIPE = ["shell", "ruby", "php", "go"] as const satisfies readonly PipeGrammar[];

interface PlannedFile<G extends Grammar = Grammar> {
  readonly name: string;
  readonly path: string;
  readonly grammar: G;
}

interface Means {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

interface Tools extends Means {
  readonly find: (program: string) => string | undefined;
}

function plan(root: string, name: string): PlannedFile | { readonly verdict: SyntaxVerdict } {
  const planned = planCheck(name);
  const skip = (why: string) => ({ verdict: { kind: "skipped", path: name, why } as const });
  if (planned.kind === "skip") return skip(planned.why);
  const file = readableFile({ root, path: name });
  return file.kind === "skip" ? skip(file.why) : { name, path: file.path, grammar: planned.grammar };
}

function isOf<G extends Grammar>(grammars: readonly G[]): (file: PlannedFile) => file is PlannedFile<G> {
  return (file): file is PlannedFile<G> => grammars.some((grammar) => grammar === file.grammar);
}

async function withNode(files: readonly PlannedFile[], means: Means): Promise<readonly SyntaxVerdict[]> {
  if (files.length === 0) return [];
  const answers = await checkWithNode({ ...means, files });
  return files.map((file, index) => verdictOf(file, answers[index], `node ${process.versions.node}`));
}

async function withPython(files: readonly PlannedFile[], tools: Tools): Promise<readonly SyntaxVerdict[]> {
  if (files.length === 0) return [];
  const program = tools.find("python3");
  if (program === undefined) return files.map((file) => missing(file, ["python3"]));
  const answers = await checkWithPython({ ...tools, program, files });
  return files.map((file, index) => verdictOf(file, answers[index], "python3"));
}

async function byPipe(files: readonly PlannedFile<PipeGrammar>[], tools: Tools): Promise<readonly SyntaxVerdict[]> {
  const verdicts: SyntaxVerdict[] = [];
  for (let start = 0; start < files.length && !tools.signal.aborted; start += AT_ONCE)
    verdicts.push(...(await Promise.all(files.slice(start, start + AT_ONCE).map((file) => pipe(file, tools)))));
  return verdicts;
}

async function pipe(file: PlannedFile<PipeGrammar>, tools: Tools): Promise<SyntaxVerdict> {
  const read = readRegularFile({ path: file.path, maxBytes: MAX_BYTES });
  if (read.kind !== "read") return { kind: "skipped", path: file.name, why: "it was changed meanwhile" };
  const candidates = pipeTools(file.grammar, read.bytes.subarray(0, 256).toString("latin1"));
  if (typeof candidates === "string") return { kind: "skipped", path: file.name, why: candidates };
  for (const tool of candidates) {
    const program = tools.find(tool.program);
    if (program === undefined) continue;
    const answer = await checkByPipe({ ...tools, tool: { program, args: tool.args }, bytes: read.bytes });
    return verdictOf(file, answer, tool.program);
  }
  return missing(
    file,
    candidates.map((tool) => tool.program),
  );
}

function missing(file: PlannedFile, programs: readonly string[]): SyntaxVerdict {
  return { kind: "skipped", path: file.name, why: `${programs.join(" or ")} is not installed` };
}

function verdictOf(file: PlannedFile, answer: ParseAnswer | undefined, by: string): SyntaxVerdict {
  if (answer?.kind === "parsed") return { kind: "parsed", path: file.name, by };
  if (answer?.kind === "failed")
    return { kind: "failed", path: file.name, by, line: answer.line, message: answer.message };
  return { kind: "skipped", path: file.name, why: answer?.why ?? "the parser said nothing about it" };
}

/** Searches absolute PATH entries only: a relative entry would let the worktree supply its own parser. */
function finder(path: string): (program: string) => string | undefined {
  const folders = path
    .split(delimiter)
    .filter((folder) => isAbsolute(folder))
    .join(delimiter);
  return (program) => findProgram(program, folders);
}

/** How a file is parsed: in a batch by one Node process, in a batch by one Python process, or piped into a tool. */
type Grammar = NodeGrammar | PythonGrammar | PipeGrammar;
type NodeGrammar = "json" | "json with comments" | "yaml" | "script" | "module" | "script or module" | "typescript";
type PythonGrammar = "python" | "toml" | "xml";
type PipeGrammar = "shell" | "ruby" | "php" | "go";

type PlannedCheck =
  | { readonly kind: "parse"; readonly grammar: Grammar }
  | { readonly kind: "skip"; readonly why: string };

/** Decides by the file name alone. */
function planCheck(path: string): PlannedCheck {
  const name = (path.split("/").at(-1) ?? "").toLowerCase();
  const ending = /[^/]\.([^.]+)$/.exec(name)?.[1];
  if (ending === undefined) return { kind: "skip", why: "its name has no ending that shows its language" };
  if (ending === "json" && allowsComments(path.toLowerCase(), name))
    return { kind: "parse", grammar: "json with comments" };
  const grammar = GRAMMAR_OF.get(ending);
  if (grammar !== undefined) return { kind: "parse", grammar };
  return { kind: "skip", why: UNPARSED.get(ending) ?? `there is no parser here for .${ending} files` };
}

const GRAMMAR_OF: ReadonlyMap<string, Grammar> = new Map<string, Grammar>([
  ["json", "json"],
  ["jsonc", "json with comments"],
  ["yaml", "yaml"],
  ["yml", "yaml"],
  ["js", "script or module"],
  ["mjs", "module"],
  ["cjs", "script"],
  ["ts", "typescript"],
  ["mts", "typescript"],
  ["cts", "typescript"],
  ["py", "python"],
  ["pyi", "python"],
  ["toml", "toml"],
  ["xml", "xml"],
  ["sh", "shell"],
  ["bash", "shell"],
  ["rb", "ruby"],
  ["php", "php"],
  ["go", "go"],
]);

const JSX = "Node does not parse JSX";
const UNPARSED: ReadonlyMap<string, string> = new Map([
  ["jsx", JSX],
  ["tsx", JSX],
]);

/** Files that their own tools read as JSON with comments despite their name. */
function allowsComments(path: string, name: string): boolean {
  return (
    /^(?:ts|js)config(?:\..+)?\.json$/.test(name) ||
    [
      "devcontainer.json",
      ".eslintrc.json",
      ".swcrc.json",
      "api-extractor.json",
      "language-configuration.json",
    ].includes(name) ||
    /(?:^|\/)\.(?:vscode|devcontainer)\//.test(path)
  );
}

type ReadableFile = { readonly kind: "file"; readonly path: string } | { readonly kind: "skip"; readonly why: string };

/** Larger than any handwritten source; generated files are not worth the wait. */
const MAX_BYTES = 2 * 1024 * 1024;

/**
 * Resolves a changed file that a parser may open: a regular file within the size limit that really is in the worktree.
 */
function readableFile(params: { readonly root: string; readonly path: string }): ReadableFile {
  const { path } = params;
  const isPlain = !isAbsolute(path) && !path.split("/").includes("..") && !path.includes("\0") && path !== "";
  if (!isPlain) return { kind: "skip", why: "it is not a path in the worktree" };
  try {
    const home = realpathSync.native(params.root);
    const whole = join(home, path);
    const stat = lstatSync(whole, { throwIfNoEntry: false });
    if (stat === undefined) return { kind: "skip", why: "it is not there any more" };
    const folder = realpathSync.native(dirname(whole));
    if (folder !== home && !folder.startsWith(home + sep))
      return { kind: "skip", why: "it lies behind a link that leads out of the worktree" };
    // The link's target is checked under its own name, or is not a file of this worktree.
    if (stat.isSymbolicLink()) return { kind: "skip", why: "it is a symbolic link" };
    if (!stat.isFile()) return { kind: "skip", why: "it is not a regular file" };
    if (stat.size > MAX_BYTES) return { kind: "skip", why: `it has ${stat.size} bytes, more than ${MAX_BYTES}` };
    return { kind: "file", path: whole };
  } catch (error) {
    return { kind: "skip", why: error instanceof Error ? error.message : String(error) };
  }
}

/** A file to parse: its absolute path and its grammar. */
export interface BatchFile {
  readonly path: string;
  readonly grammar: string;
}

export type ParseAnswer =
  | { readonly kind: "parsed" }
  | { readonly kind: "failed"; readonly line: number | null; readonly message: string }
  | { readonly kind: "skipped"; readonly why: string };

/**
 * Parses many files in one process, which gets them as JSON on standard input and prints one answer a line, in order.
 * File names never appear on a command line, so they may contain anything. Files without an answer are skipped with a
 * reason.
 */
async function parseBatch(params: {
  readonly command: string;
  readonly args: readonly string[];
  readonly files: readonly BatchFile[];
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}): Promise<readonly ParseAnswer[]> {
  const exit = await runProcess({
    command: params.command,
    args: params.args,
    ...NEUTRAL,
    env: parserEnvironment(process.env),
    input: Buffer.from(JSON.stringify(params.files)),
    timeoutMs: params.timeoutMs,
    signal: params.signal,
  });
  const answers = exit.stdout.toString("utf8").split("\n").slice(0, -1).map(readAnswer);
  const why =
    exit.kind === "timed_out"
      ? `the parser had not come to it after ${params.timeoutMs / 1000} s`
      : `the parser ended before it: ${exit.stderr.trim().split("\n").at(-1) ?? exit.kind}`;
  return params.files.map((_, index) => answers[index] ?? { kind: "skipped", why });
}

/**
 * Version managers read settings from the current directory. The agent's worktree must not choose which parser runs.
 */
const NEUTRAL = { cwd: tmpdir() };

/** Removes variables that make an interpreter load or run code before it parses. */
function parserEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const kept = Object.entries(env).filter(
    ([name]) =>
      !/^(?:NODE_OPTIONS|NODE_V8_COVERAGE|NODE_PATH|BASH_ENV|ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|RUBYOPT|RUBYLIB|PHPRC|PHP_INI_SCAN_DIR|PYTHON.*)$/.test(
        name,
      ),
  );
  return { ...Object.fromEntries(kept), LC_ALL: "C.UTF-8" };
}

function readAnswer(line: string): ParseAnswer {
  const value: unknown = JSON.parse(line);
  if (typeof value !== "object" || value === null || !("kind" in value)) return UNREADABLE;
  if (value.kind === "parsed") return { kind: "parsed" };
  if (value.kind === "skipped" && "why" in value) return { kind: "skipped", why: String(value.why) };
  if (value.kind !== "failed" || !("message" in value) || !("line" in value)) return UNREADABLE;
  return { kind: "failed", line: typeof value.line === "number" ? value.line : null, message: String(value.message) };
}

const UNREADABLE: ParseAnswer = { kind: "skipped", why: "the parser's answer could not be read" };

/** Checks JavaScript, TypeScript, JSON and YAML. */
function checkWithNode(params: {
  readonly files: readonly BatchFile[];
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}): Promise<readonly ParseAnswer[]> {
  const flags = ["--experimental-vm-modules", "--disable-warning=ExperimentalWarning"];
  return parseBatch({ ...params, command: process.execPath, args: [...flags, PARSER] });
}

/** The parser has the extension of this file: .ts in the sources, .js in the library, .cjs next to the CLI bundle. */
const PARSER = join(import.meta.dirname, `node-parser${extname(import.meta.filename)}`);

/**
 * Checks Python, TOML and XML. The interpreter is isolated: no site packages, no outside settings, no compiled files on
 * disk.
 */
function checkWithPython(params: {
  readonly program: string;
  readonly files: readonly BatchFile[];
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}): Promise<readonly ParseAnswer[]> {
  return parseBatch({ ...params, command: params.program, args: ["-I", "-S", "-B", "-W", "ignore", "-c", PROGRAM] });
}

const PROGRAM = `
import ast, json, sys

def python(data):
    ast.parse(data)

def toml(data):
    import tomllib
    tomllib.loads(data.decode("utf-8"))

def xml(data):
    from xml.parsers import expat
    expat.ParserCreate().Parse(data, True)

def answer(file):
    try:
        with open(file["path"], "rb") as stream:
            data = stream.read()
        {"python": python, "toml": toml, "xml": xml}[file["grammar"]](data)
        return {"kind": "parsed"}
    except SyntaxError as error:
        return {"kind": "failed", "line": error.lineno, "message": error.msg}
    except ImportError:
        return {"kind": "skipped", "why": "this Python is older than 3.11 and cannot read TOML"}
    except (RecursionError, MemoryError, OSError) as error:
        return {"kind": "skipped", "why": "%s: %s" % (type(error).__name__, error)}
    except Exception as error:
        found = getattr(error, "lineno", None)
        if found is None:
            import re
            match = re.search(r"at line (\\d+)", str(error))
            found = int(match.group(1)) if match else None
        return {"kind": "failed", "line": found, "message": str(error)}

for file in json.loads(sys.stdin.buffer.read()):
    sys.stdout.write(json.dumps(answer(file)) + "\\n")
    sys.stdout.flush()
`;

/**
 * Pipes the file into a tool that takes one file. Standard input keeps the tool from reading the file name as an
 * option.
 */
async function checkByPipe(params: {
  readonly tool: PipeTool;
  readonly bytes: Uint8Array;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}): Promise<ParseAnswer> {
  const exit = await runProcess({
    command: params.tool.program,
    args: params.tool.args,
    ...NEUTRAL,
    env: parserEnvironment(process.env),
    input: params.bytes,
    timeoutMs: params.timeoutMs,
    signal: params.signal,
  });
  return judge(exit, params.timeoutMs);
}

interface PipeTool {
  readonly program: string;
  readonly args: readonly string[];
}

/**
 * Returns candidates in order of preference, or the reason to skip. `head` is the start of the file; its first line may
 * name its shell.
 */
function pipeTools(grammar: PipeGrammar, head: string): readonly PipeTool[] | string {
  switch (grammar) {
    case "ruby":
      return [{ program: "ruby", args: ["--disable-all", "-c", "-"] }];
    case "php":
      return [{ program: "php", args: ["-n", "-l"] }];
    case "go":
      return [{ program: "gofmt", args: ["-e", "-l"] }];
    case "shell":
      return shells(head);
  }
}

// While bash only reads a script, options that the script sets itself are not in effect. Without extglob its patterns
// would be errors.
const BASH: PipeTool = { program: "bash", args: ["--norc", "--noprofile", "-O", "extglob", "-n"] };
const SH: PipeTool = { program: "sh", args: ["-n"] };

function shells(head: string): readonly PipeTool[] | string {
  const [interpreter = "", ...words] = /^#!\s*(\S[^\n]*)/.exec(head)?.[1]?.trim().split(/\s+/) ?? [];
  // `#!/usr/bin/env -S A=1 bash -eu`: take the first word that is neither an option nor a variable.
  const named = /(?:^|\/)env$/.test(interpreter) ? words.find((word) => !/^-|=/.test(word)) : interpreter;
  const name = named === undefined || named === "" ? undefined : named.split("/").at(-1);
  if (name === undefined || name === "bash") return [BASH, ...(name === undefined ? [SH] : [])];
  if (name === "sh" || name === "dash") return [SH];
  return `it is a script for ${name}`;
}

function judge(exit: ProcessResult, timeoutMs: number): ParseAnswer {
  if (exit.kind === "exited" && exit.code === 0) return { kind: "parsed" };
  if (exit.kind === "timed_out")
    return { kind: "skipped", why: `the parser had not finished after ${timeoutMs / 1000} s` };
  if (exit.kind !== "exited")
    return { kind: "skipped", why: `the parser did not run to its end: ${exit.stderr || exit.kind}` };
  const output = `${exit.stderr}\n${exit.stdout.toString("utf8")}`;
  for (const pattern of PLACES) {
    const found = pattern.exec(output);
    if (found !== null)
      return { kind: "failed", line: Number(found.groups?.["line"]), message: found.groups?.["message"]?.trim() ?? "" };
  }
  return { kind: "failed", line: null, message: output.trim().split("\n")[0] ?? "" };
}

/** Error formats of bash, of dash, of php, and of ruby and gofmt, in this order. */
const PLACES: readonly RegExp[] = [
  /^[^\n]*?: line (?<line>\d+): (?<message>[^\n]+)/m,
  /^[^\n:]*: (?<line>\d+): (?<message>[^\n]+)/m,
  /^(?:PHP )?(?:Parse|Fatal) error: +(?<message>[^\n]+?) in [^\n]* on line (?<line>\d+)/m,
  /^[^\n:]*:(?<line>\d+):(?:\d+:)? *(?<message>[^\n]+)/m,
];

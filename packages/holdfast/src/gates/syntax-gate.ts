import { isAbsolute, delimiter } from "node:path";
import type { SyntaxGate, SyntaxVerdict } from "../ports/gate.ts";
import { findProgram } from "../system/probe.ts";
import { readRegularFile } from "../system/regular-file.ts";
import { checkByPipe, pipeTools } from "./check-by-pipe.ts";
import { checkWithNode } from "./check-with-node.ts";
import { checkWithPython } from "./check-with-python.ts";
import type { ParseAnswer } from "./parse-batch.ts";
import { planCheck, type Grammar, type PipeGrammar } from "./plan-checks.ts";
import { MAX_BYTES, readableFile } from "./readable-file.ts";

/** Every file gets its verdict, in the order asked. Rejects with the signal's reason when it is aborted: no verdict is no pass. */
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

/** Only in directories named from the root: a relative one on PATH would let the worktree bring its own parser. */
function finder(path: string): (program: string) => string | undefined {
  const folders = path
    .split(delimiter)
    .filter((folder) => isAbsolute(folder))
    .join(delimiter);
  return (program) => findProgram(program, folders);
}

import { runProcess, type ProcessResult } from "../system/subprocess.ts";
import { NEUTRAL, parserEnvironment, type ParseAnswer } from "./parse-batch.ts";
import type { PipeGrammar } from "./plan-checks.ts";

/** For tools that take one file: it goes in by standard input, so that its name is nobody's option. */
export async function checkByPipe(params: {
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

export interface PipeTool {
  readonly program: string;
  readonly args: readonly string[];
}

/** Candidates in the order of preference; `head` is the beginning of the file, whose first line may name its shell. */
export function pipeTools(grammar: PipeGrammar, head: string): readonly PipeTool[] | string {
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

// Options that a script sets for itself are not set while it is only read: without extglob its patterns would be errors.
const BASH: PipeTool = { program: "bash", args: ["--norc", "--noprofile", "-O", "extglob", "-n"] };
const SH: PipeTool = { program: "sh", args: ["-n"] };

function shells(head: string): readonly PipeTool[] | string {
  const [interpreter = "", ...words] = /^#!\s*(\S[^\n]*)/.exec(head)?.[1]?.trim().split(/\s+/) ?? [];
  // `#!/usr/bin/env -S A=1 bash -eu`: the first word that is neither an option nor a variable.
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
  const said = `${exit.stderr}\n${exit.stdout.toString("utf8")}`;
  for (const pattern of PLACES) {
    const found = pattern.exec(said);
    if (found !== null)
      return { kind: "failed", line: Number(found.groups?.["line"]), message: found.groups?.["message"]?.trim() ?? "" };
  }
  return { kind: "failed", line: null, message: said.trim().split("\n")[0] ?? "" };
}

/** bash, dash, php, then ruby and gofmt. */
const PLACES: readonly RegExp[] = [
  /^[^\n]*?: line (?<line>\d+): (?<message>[^\n]+)/m,
  /^[^\n:]*: (?<line>\d+): (?<message>[^\n]+)/m,
  /^(?:PHP )?(?:Parse|Fatal) error: +(?<message>[^\n]+?) in [^\n]* on line (?<line>\d+)/m,
  /^[^\n:]*:(?<line>\d+):(?:\d+:)? *(?<message>[^\n]+)/m,
];

import { tmpdir } from "node:os";
import { runProcess } from "../system/subprocess.ts";

/** A file to parse: where it lies, and as what. */
export interface BatchFile {
  readonly path: string;
  readonly grammar: string;
}

export type ParseAnswer =
  | { readonly kind: "parsed" }
  | { readonly kind: "failed"; readonly line: number | null; readonly message: string }
  | { readonly kind: "skipped"; readonly why: string };

/**
 * One process for many files: it gets them as JSON on standard input and prints an answer a line, in their order. Names never
 * stand on a command line, so they may hold anything. What it did not answer is skipped, and said.
 */
export async function parseBatch(params: {
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

/** Version managers look for their settings in the current directory; the agent's worktree must not choose what runs here. */
export const NEUTRAL = { cwd: tmpdir() };

/** Without what makes an interpreter load or run something before it parses. */
export function parserEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
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

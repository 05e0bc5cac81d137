import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { findTool } from "./find-tool.ts";
import { parseOperation } from "./operation.ts";
import type { Operation } from "./operation.ts";
import { scratchRoot } from "./scratch.ts";

/** What happens when the counter reaches `at`. Phase: before the call is made, or after it returned. */
export type Fault = { readonly at: number; readonly kinds?: readonly string[] } & (
  | { readonly do: "kill"; readonly phase: "before" | "after" }
  /** Only the process that was started; its children live on. */
  | { readonly do: "kill-leader"; readonly phase: "before" | "after" }
  /** Half of a write lands, then everything is killed. */
  | { readonly do: "tear" }
  | { readonly do: "short" }
  | { readonly do: "errno"; readonly errno: number; readonly sticky?: boolean }
  | { readonly do: "shutdown"; readonly mount: string; readonly phase: "before" | "after" }
  | { readonly do: "pause"; readonly phase: "before" | "after"; readonly whilePaused: (at: number) => Promise<void> }
);

export interface Traced {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly operations: readonly Operation[];
}

export interface TraceParams {
  readonly command: readonly string[];
  readonly root: string;
  readonly fault?: Fault;
  /** Log every open, also outside the root. */
  readonly reads?: boolean;
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  readonly timeoutMs?: number;
}

/** Runs the command under the tracer until it and all its children have ended. */
export async function trace(params: TraceParams): Promise<Traced> {
  const folder = await mkdtemp(join(scratchRoot(), "trace-"));
  try {
    const log = join(folder, "log");
    const data = join(folder, "data");
    const ended = await run(params, [...tracerFlags(params, log, data), "--", ...params.command]);
    const lines = (await readFile(log, "utf8")).split("\n").filter((line) => line !== "");
    if (!lines.at(-1)?.includes("\tend\t")) throw new Error(`the tracer broke off: ${ended.stderr}`);
    const bytes = await readFile(data);
    const operations = lines.map((line) => parseOperation(line, bytes)).filter((operation) => operation !== undefined);
    return { ...ended, operations };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

let refusal: Promise<string | undefined> | undefined;

/** Why nothing can be traced here; undefined when it can. */
export function whyNoTracer(): Promise<string | undefined> {
  refusal ??= tryTracer();
  return refusal;
}

async function tryTracer(): Promise<string | undefined> {
  if (process.platform !== "linux") return "tracing is done on Linux only";
  const perl = findTool("perl");
  if (perl.kind === "missing") return perl.why;
  const root = await mkdtemp(join(scratchRoot(), "probe-"));
  try {
    const { operations } = await trace({
      command: [process.execPath, "-e", `require("fs").mkdirSync(${JSON.stringify(join(root, "made"))})`],
      root,
    });
    return operations.some(({ kind }) => kind === "mkdir") ? undefined : "the tracer sees nothing here";
  } catch (error) {
    return `processes cannot be traced here: ${error instanceof Error ? error.message.trim() : String(error)}`;
  }
}

function tracerFlags(params: TraceParams, log: string, data: string): readonly string[] {
  const flags = [join(import.meta.dirname, "tracer.pl"), "--log", log, "--data", data, "--root", params.root];
  if (params.reads === true) flags.push("--reads");
  if (params.fault !== undefined) flags.push(...faultFlags(params.fault));
  return flags;
}

function faultFlags(fault: Fault): readonly string[] {
  const flags = ["--at", String(fault.at)];
  if (fault.kinds !== undefined) flags.push("--kinds", fault.kinds.join(","));
  switch (fault.do) {
    case "kill":
    case "kill-leader":
    case "pause":
      return [...flags, "--do", fault.do, "--phase", fault.phase];
    case "tear":
      return [...flags, "--do", "tear", "--phase", "after"];
    case "short":
      return [...flags, "--do", "short"];
    case "errno":
      return [...flags, "--do", `errno:${fault.errno}`, ...(fault.sticky === true ? ["--sticky"] : [])];
    case "shutdown":
      return [...flags, "--do", `shutdown:${fault.mount}`, "--phase", fault.phase];
  }
}

async function run(params: TraceParams, args: readonly string[]): Promise<Omit<Traced, "operations">> {
  const child = spawn("perl", args, {
    stdio: ["pipe", "pipe", "pipe", "pipe", "pipe"],
    // Compiled code that Node keeps is no file of the traced program.
    env: { ...process.env, UV_USE_IO_URING: "0", NODE_DISABLE_COMPILE_CACHE: "1", ...params.env },
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), params.timeoutMs ?? 600_000);
  const [, stdout, stderr, fromTracer, toTracer] = child.stdio;
  child.stdin.end(params.input ?? "");
  const paused =
    params.fault?.do === "pause" ? holdWhile(params.fault.whilePaused, fromTracer, toTracer) : Promise.resolve();
  const output = Promise.all([collect(stdout), collect(stderr)]);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", resolve);
  });
  clearTimeout(timer);
  const [printed, complained] = await output;
  await paused;
  return { code, stdout: printed, stderr: complained };
}

async function holdWhile(
  work: (at: number) => Promise<void>,
  fromTracer: Readable | Writable | null | undefined,
  toTracer: Readable | Writable | null | undefined,
): Promise<void> {
  if (fromTracer === null || fromTracer === undefined || !("read" in fromTracer))
    throw new Error("no pipe to read from the tracer");
  if (toTracer === null || toTracer === undefined || !("write" in toTracer))
    throw new Error("no pipe to write to the tracer");
  let error: unknown;
  for await (const chunk of fromTracer) {
    const at = /^paused (\d+)/.exec(String(chunk))?.[1];
    if (at === undefined) continue;
    try {
      await work(Number(at));
    } catch (thrown) {
      error = thrown;
    }
    toTracer.write("\n");
  }
  if (error !== undefined) throw error;
}

async function collect(stream: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString("utf8");
}

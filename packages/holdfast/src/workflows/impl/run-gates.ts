import type { CommandResult } from "../../ports/command.ts";
import type { SyntaxVerdict } from "../../ports/gate.ts";
import { keepEnd } from "./impl-prompt.ts";
import { OUTPUT_DIRECTORY, outputFiles } from "./output-files.ts";
import { parseReport } from "./parse-report.ts";
import type { Failing } from "./state.ts";
import { prettyJson } from "./work.ts";
import type { ImplContext, ImplWork, Worktree } from "./work.ts";

export type GateVerdict =
  | { readonly kind: "passed" }
  | { readonly kind: "failed"; readonly gate: "parse" | "command"; readonly reason: string; readonly failing: Failing };

const OUTPUT_CHARACTERS = 12_000;

export interface GateParams {
  /** What the files are compared with. */
  readonly from: string;
  /** Pins the date of a commit of what a gate that passed has changed (a formatter): what is reviewed is what is pushed. null: none is made. */
  readonly commitAt: string | null;
}

/** All files that differ from `from` must parse; then the user's own command must succeed. */
export async function runGates(
  work: ImplWork,
  context: ImplContext,
  worktree: Worktree,
  params: GateParams,
): Promise<GateVerdict> {
  const verdicts = await parseGate(work, context, worktree, params.from);
  const report = parseReport(verdicts);
  await worktree.outputs.write(outputFiles.parse(context.position.iteration), prettyJson(report));
  if (!report.pass) {
    const reason = `${report.failed_files.length === 1 ? "A file does" : "Files do"} not parse: ${report.failed_files.join(", ")}`;
    const detail = [`${reason}.`, report.traceback].join("\n");
    return { kind: "failed", gate: "parse", reason, failing: { gate: "parse", detail } };
  }
  return await commandGate(work, context, worktree, params.commitAt);
}

async function parseGate(
  { parts }: ImplWork,
  context: ImplContext,
  { root, branch }: Worktree,
  from: string,
): Promise<readonly SyntaxVerdict[]> {
  return await context.step("parse-gate", async ({ signal }) => {
    const changed = await branch.changedSince({ from, exclude: [OUTPUT_DIRECTORY] });
    const paths = changed.filter((file) => file.status !== "deleted").map((file) => file.path);
    const verdicts = paths.length === 0 ? [] : await parts.syntax.check({ root, paths, signal });
    return verdicts.map((verdict) => ({ ...verdict }));
  });
}

async function commandGate(
  { options, parts }: ImplWork,
  context: ImplContext,
  { root, branch }: Worktree,
  commitAt: string | null,
): Promise<GateVerdict> {
  const { gate } = options;
  if (gate === null) return { kind: "passed" };
  const result = await context.step(
    "gate-command",
    async ({ mark, signal }) => {
      const done = await parts.commands.run({
        command: gate.command,
        cwd: root,
        mark,
        timeoutMs: gate.timeoutMs,
        signal,
      });
      // Interrupted is no verdict: the step must run again.
      signal.throwIfAborted();
      if (commitAt !== null && done.kind === "exited" && done.code === 0)
        await branch.commit({ message: `Changes made by ${gate.command}`, at: commitAt, exclude: [OUTPUT_DIRECTORY] });
      return { kind: done.kind, code: done.code, output: keepEnd(done.output, OUTPUT_CHARACTERS) };
    },
    { changesFiles: true },
  );
  if (result.kind === "exited" && result.code === 0) return { kind: "passed" };
  const reason = `The gate command ${howItEnded(result)}: ${gate.command}`;
  const detail = [`${reason}.`, "Its output:", result.output.trim()].join("\n");
  return { kind: "failed", gate: "command", reason, failing: { gate: gate.command, detail } };
}

function howItEnded(result: Pick<CommandResult, "kind" | "code">): string {
  switch (result.kind) {
    case "exited":
      return result.code === null ? "was killed" : `failed with exit ${result.code}`;
    case "timed_out":
      return "took too long";
    case "interrupted":
      return "was interrupted";
    case "not_started":
      return "could not be started";
  }
}

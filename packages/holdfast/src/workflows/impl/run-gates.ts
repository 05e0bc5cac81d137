import type { SyntaxVerdict } from "../../ports/gate.ts";
import { runGateCommand } from "../gate-command.ts";
import { outputFiles } from "./output-files.ts";
import { parseReport } from "./parse-report.ts";
import type { Failing } from "./state.ts";
import { OUTPUT_DIRECTORY, prettyJson } from "../worktree.ts";
import type { ImplContext, ImplWork } from "./work.ts";
import type { Worktree } from "../worktree.ts";

export type GateVerdict =
  | { readonly kind: "passed" }
  | { readonly kind: "failed"; readonly gate: "parse" | "command"; readonly reason: string; readonly failing: Failing };

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
  const { gate } = work.options;
  const verdict = await runGateCommand(work, context, worktree, { gate, commitAt: params.commitAt });
  if (verdict.kind === "passed" || gate === null) return { kind: "passed" };
  const { reason, detail } = verdict;
  return { kind: "failed", gate: "command", reason, failing: { gate: gate.command, detail } };
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

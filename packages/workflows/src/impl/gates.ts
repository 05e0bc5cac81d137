// The gates of impl: changed files must parse, then the user's command must succeed.

import type { SyntaxVerdict } from "@holdfast/core/adapters";
import { OUTPUT_DIRECTORY, type Worktree, prettyJson, runGateCommand } from "../worktree.ts";
import { outputFiles } from "./layout.ts";
import { truncateStart } from "../text.ts";
import type { Failing, ImplContext, ImplDependencies, ImplState } from "./state.ts";

/** Characters of the gate's output that the state keeps for later prompts. */
const KEPT_CHARACTERS = 4_000;

type GateVerdict = (
  | { readonly kind: "passed" }
  | { readonly kind: "failed"; readonly gate: "parse" | "command"; readonly reason: string; readonly failing: Failing }
) & {
  /** The run of the gate command, for the state; empty if it did not run. */
  readonly ran: Pick<ImplState, "gate">;
};

interface GateParams {
  /** The commit that the files are compared with. */
  readonly from: string;
  /** The commit that has the files; absent: they are not committed yet. */
  readonly to?: string;
  /**
   * Commit date for changes that a passing gate made, such as those of a formatter: the pushed files must be the
   * reviewed ones. A null date makes no commit.
   */
  readonly commitAt: string | null;
}

/** Requires all files that differ from `from` to parse, then the user's command to succeed. */
export async function runGates(
  work: ImplDependencies,
  context: ImplContext,
  worktree: Worktree,
  params: GateParams,
): Promise<GateVerdict> {
  const verdicts = await parseGate(work, context, worktree, params);
  const report = parseReport(verdicts);
  await worktree.outputs.write(outputFiles.parse(context.position.iteration), prettyJson(report));
  if (!report.pass) {
    const reason = `${report.failed_files.length === 1 ? "A file does" : "Files do"} not parse: ${report.failed_files.join(", ")}`;
    const detail = [`${reason}.`, report.traceback].join("\n");
    return { kind: "failed", gate: "parse", reason, failing: { gate: "parse", detail }, ran: {} };
  }
  const { gate } = work.options;
  const verdict = await runGateCommand(work, context, worktree, { gate, commitAt: params.commitAt });
  if (gate === null || verdict.output === null) return { kind: "passed", ran: {} };
  const passed = verdict.kind === "passed";
  const output = truncateStart(verdict.output, KEPT_CHARACTERS);
  const ran = { gate: { command: gate.command, passed, output, iteration: context.position.iteration } };
  if (passed) return { kind: "passed", ran };
  const { reason, detail } = verdict;
  return { kind: "failed", gate: "command", reason, failing: { gate: gate.command, detail }, ran };
}

async function parseGate(
  { adapters }: ImplDependencies,
  context: ImplContext,
  { root, branch }: Worktree,
  { from, to }: GateParams,
): Promise<readonly SyntaxVerdict[]> {
  return await context.step(
    "parse-gate",
    async ({ signal }) => {
      const since = { from, exclude: [OUTPUT_DIRECTORY] };
      const changed = await (to === undefined ? branch.changedSince(since) : branch.changedBetween({ ...since, to }));
      const paths = changed.filter((file) => file.status !== "deleted").map((file) => file.path);
      const verdicts = paths.length === 0 ? [] : await adapters.syntax.check({ root, paths, signal });
      return verdicts.map((verdict) => ({ ...verdict }));
    },
    { title: "checking the syntax of changed files" },
  );
}

/** Content of `.tmp/parse-iter-N.json`. Other tools read these field names. */
interface ParseReport {
  readonly pass: boolean;
  readonly failed_files: readonly string[];
  readonly traceback: string;
  readonly suggestions: readonly string[];
  readonly parsed_files: readonly string[];
  readonly skipped_files: readonly { readonly path: string; readonly why: string }[];
}

function parseReport(verdicts: readonly SyntaxVerdict[]): ParseReport {
  const failed = verdicts.filter((verdict) => verdict.kind === "failed");
  return {
    pass: failed.length === 0,
    failed_files: failed.map((verdict) => verdict.path),
    traceback: failed
      .map(({ path, line, by, message }) => `${path}${line === null ? "" : `:${line}`} (${by}): ${message}`)
      .join("\n"),
    suggestions: failed.map(({ path }) => `Make ${path} parse.`),
    parsed_files: verdicts.filter((verdict) => verdict.kind === "parsed").map((verdict) => verdict.path),
    skipped_files: verdicts.filter((verdict) => verdict.kind === "skipped").map(({ path, why }) => ({ path, why })),
  };
}

/** The `format import` command: imports checkpoints of another tool into the store, as a run. */
import { FORMAT_NAMES } from "@holdfast/formats/format-names";
import { HoldfastError } from "@holdfast/platform/error";
import { isBuiltIn } from "@holdfast/workflows/built-in";
import type { Holdfast } from "../../holdfast.ts";
import type { ImportPlan } from "../../interop/import.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { checkNewRunId } from "../operands.ts";
import { type Page, paint } from "../output/page.ts";
import { countText } from "../output/quantities.ts";
import { escapeText, wrap } from "../output/text.ts";
import { explainHolder } from "../run-holder.ts";

export const spec = {
  name: "format import",
  summary: "continue here what another tool began",
  details: [
    "Detects the format by the content and creates a run. If it cannot detect the format, it asks (exit status 4 without a terminal). gzip is decompressed. A directory is read as one history: its files in order, with crunch's index if there is one. In a repository or its .aiwg directory, every loop becomes one run.",
    "Everything is read and checked before anything is written. The run keeps the whole document, so `holdfast format export` can write it again. A second import of the same document changes nothing; after a crash, the same command completes the import. Loops that a run of this store wrote below .aiwg are not imported, except with --run.",
    "A run file (`holdfast format export RUN --to run`) is imported with its whole history, files and logs, under its own id. Its first resume asks for your consent to its commands and agents.",
    "Continue it with `holdfast resume RUN`.",
  ],
  operands: [
    { name: "FILE", about: "a checkpoint file, or a directory of them", required: true, completes: "file", many: true },
  ],
  consent: "saves",
  flags: {
    format: { type: "text", value: "NAME", about: "the format, if it cannot be detected", choices: FORMAT_NAMES },
    run: { type: "text", value: "ID", about: "id of the new run (default: from the work)" },
    "dry-run": { type: "boolean", about: "show what would be created, and create nothing" },
  },
  examples: [
    {
      line: "holdfast format import .tmp/impl-checkpoint.json",
      about: "import a run of another tool; `holdfast resume` continues it",
    },
    {
      line: "holdfast format import .claude/crunch/42/checkpoints --dry-run",
      about: "show what a crunch directory contains",
    },
    {
      line: "holdfast format import state.json --format context-store --run agent-7",
      about: "name the format and the id of the run",
    },
  ],
  json: '{"run", "format", "workflow", "work", "worktree", "checkpoints": [{"sequence", "id", "createdAt", "stage", "iteration"}], "remarks": [...], "broken": [{"name", "code", "message"}], "before": "none" | "part" | "whole" | "own", "changed": true | false}; with --dry-run "changed" is absent. Of several loops, a line each, with "kind": "imported". Of a run file: {"run", "format": "run", "from": {"store", "createdAt"}, "entries", "checkpoints", "before", "changed"}.',
} as const satisfies CommandSpec;

type Format = (typeof FORMAT_NAMES)[number];

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const id = input.text("run");
  checkNewRunId(id);
  const dryRun = input.on("dry-run");
  const holdfast = await shell.open(dryRun ? { create: false, pretend: true, writes: false } : { create: true });
  const named = FORMAT_NAMES.find((name) => name === input.text("format"));
  const { importRunFile, namesRunFile } = await import("./format-run.ts");
  if (named === undefined && namesRunFile(shell, input.operands))
    return await importRunFile(shell, holdfast, { path: input.operand(0) ?? "", run: id, dryRun });
  const plans = await planOrAsk(shell, holdfast, { paths: input.operands, named, id });
  // With several imports, prints one line each, so that a finished import is reported even if a later one fails.
  const show = (document: object, text: (page: Page) => string): void => {
    if (shell.json && plans.length > 1) shell.write(`${JSON.stringify({ kind: "imported", ...document })}\n`);
    else shell.print({ json: () => document, text });
  };
  for (const plan of plans) {
    if (dryRun) {
      show(importDocument(plan), (page) => importText(plan, "plan", page));
      continue;
    }
    const importing = explainHolder(() => holdfast.formats.applyImport(plan));
    const report = await shell.finish(importing, {
      done: ({ run, changed }) => (changed ? `run ${run} was imported` : null),
    });
    show({ ...importDocument(plan), changed: report.changed }, (page) =>
      importText(plan, report.changed ? "done" : "same", page),
    );
  }
  const [only] = plans;
  if (dryRun || only === undefined) return "done";
  const { program } = shell.talk;
  const run = plans.length === 1 ? only.run : "RUN";
  const file = isBuiltIn(only.workflow) ? "" : " --workflow FILE";
  shell.notify(`Show it:     ${program} show ${run}\nContinue it: ${program} resume ${run}${file}`);
  return "done";
}

/** If several formats match, asks about each in turn. Without a terminal the error is thrown. */
async function planOrAsk(
  shell: Shell,
  holdfast: Holdfast,
  params: { readonly paths: readonly string[]; readonly named: Format | undefined; readonly id: string | undefined },
): Promise<readonly ImportPlan[]> {
  const plan = (format: Format | undefined): Promise<readonly ImportPlan[]> =>
    holdfast.formats.planImport({
      paths: params.paths,
      cwd: shell.cwd,
      ...(format === undefined ? {} : { format }),
      ...(params.id === undefined ? {} : { run: params.id }),
    });
  try {
    return await plan(params.named);
  } catch (error) {
    for (const claim of claimsOf(error)) {
      const answer = await shell.confirm(`${escapeText(String(error))}. Read it as ${claim}?`);
      if (answer === "yes") return await plan(claim);
      if (answer === "cannot_ask") break;
    }
    throw error;
  }
}

function claimsOf(error: unknown): readonly Format[] {
  if (!(error instanceof HoldfastError) || error.code !== "FORMAT_UNKNOWN" || error.data["several"] !== true) return [];
  const claims: readonly unknown[] = Array.isArray(error.data["claims"]) ? error.data["claims"] : [];
  return FORMAT_NAMES.filter((name) =>
    claims.some((claim) => typeof claim === "object" && claim !== null && "format" in claim && claim.format === name),
  );
}

const SHOWN = 10;

/** "plan": would be imported. "done": was imported. "same": was imported before. */
export function importText(plan: ImportPlan, how: "plan" | "done" | "same", page: Page): string {
  const run = paint(page, "bold", escapeText(plan.run));
  const count = countText(plan.checkpoints.length, "checkpoint");
  const what = `${count} of ${plan.format}`;
  if (plan.before === "own") return ownText(plan, { run, what }, page);
  const lines = [headline(plan, how, { run, what })];
  const hidden = Math.max(0, plan.checkpoints.length - SHOWN);
  if (hidden > 0) lines.push(`  ${hidden} older ones`);
  for (const [at, { id, createdAt, planes }] of plan.checkpoints.entries()) {
    if (at < hidden) continue;
    const { stage, iteration } = planes.position;
    const parts = [
      stage,
      ...(iteration > 0 ? [`iteration ${iteration}`] : []),
      createdAt ?? "no time",
      ...(id === null ? [] : [id]),
    ];
    lines.push(`  ${escapeText(`${plan.run}@${at + 1}`)}  ${parts.map(escapeText).join(", ")}`);
  }
  if (plan.worktree !== null) lines.push(`Its files are in ${escapeText(plan.worktree)}`);
  for (const { path, text } of plan.remarks)
    lines.push(...headedLines(paint(page, "dim", "note:"), `${path} ${text}`, page));
  for (const { name, error } of plan.broken)
    lines.push(...headedLines(paint(page, "red", "left out:"), `${name}: ${error.message}`, page));
  return `${lines.join("\n")}\n`;
}

/** The user hardly wants a second run of the same work, so this names the existing run. */
function ownText(plan: ImportPlan, { run, what }: { readonly run: string; readonly what: string }, page: Page): string {
  const second = `${page.program} fork ${escapeText(plan.run)}@latest`;
  return `Nothing to do: ${run} of this store wrote these files (${what}).\nFor a second run: ${second}, or name one with --run.\n`;
}

function headedLines(head: string, text: string, page: Page): readonly string[] {
  const [first = "", ...rest] = wrap(escapeText(text.trim()), Math.min(page.width, 100) - 10);
  return [`${head} ${first}`, ...rest.map((line) => `    ${line}`)];
}

function headline(
  plan: ImportPlan,
  how: "plan" | "done" | "same",
  { run, what }: { readonly run: string; readonly what: string },
): string {
  if (how === "done") return `Imported ${what} as ${run}.`;
  if (how === "same" || plan.before === "whole") return `Nothing to do: already imported as ${run}, ${what}.`;
  return plan.before === "part" ? `Would finish the import of ${what} as ${run}:` : `Would import ${what} as ${run}:`;
}

function importDocument(plan: ImportPlan): object {
  const { run, format, workflow, work, worktree, remarks, before } = plan;
  return {
    run,
    format,
    workflow,
    work,
    worktree,
    checkpoints: plan.checkpoints.map(({ id, createdAt, planes }, at) => {
      const { stage, iteration } = planes.position;
      return { sequence: at + 1, id, createdAt, stage, iteration };
    }),
    remarks,
    broken: plan.broken.map(({ name, error }) => ({ name, code: error.code, message: error.message })),
    before,
  };
}

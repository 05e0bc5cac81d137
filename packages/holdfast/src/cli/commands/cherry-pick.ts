/** The `cherry-pick` command: takes single files of another run's checkpoint. */
import type { Checkpoint } from "@holdfast/core/checkpoint";
import { type CherryPickPlan, type CherryPickReport, LITERAL, isBelow, nameAsked } from "@holdfast/core/cherry-pick";
import type { RunHandle } from "@holdfast/core/run-handle";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import type { Holdfast } from "../../holdfast.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { findRun, worktreePaths } from "../operands.ts";
import { type Page, type Style, paint } from "../output/page.ts";
import { countText } from "../output/quantities.ts";
import { reasonText } from "../output/run-text.ts";
import { escapeText, truncate } from "../output/text.ts";
import { waitForRun } from "../run-holder.ts";
import { changeLine } from "./restore.ts";

export const spec = {
  name: "cherry-pick",
  summary: "copy single files from another run's checkpoint",
  details: [
    "Copies files and directories from a checkpoint of one run into the worktree of another: content, modes and links. A file that the checkpoint does not have is removed. * matches within a directory, ** across directories; :(literal)NAME is never a pattern. Paths are relative to the current directory, in any worktree of the repository.",
    "The current files are saved as a checkpoint first, and the result as another, from which the run resumes. Restoring the first one undoes the command. After a crash, the same command completes it.",
    "It refuses to change a running run, files with changes since the newest checkpoint, and links that point outside the worktree; --force allows the last two.",
  ],
  operands: [
    {
      name: "RUN",
      about: "the source: a run (its newest checkpoint) or an address",
      required: true,
      completes: "address",
    },
    { name: "PATH", about: "files, directories or patterns", required: true, completes: "file", many: true },
  ],
  consent: "saves",
  flags: {
    into: {
      type: "text",
      value: "RUN",
      about: "the run that gets the files; default the run of this worktree",
      completes: "run",
    },
    from: { type: "text", value: "SEQ", about: "the checkpoint of RUN to copy from; default the newest" },
    force: {
      type: "boolean",
      about: "also replace unsaved changes (they are saved first) and links that point outside",
    },
    "dry-run": { type: "boolean", about: "show what would change, and change nothing" },
  },
  examples: [
    { line: "holdfast cherry-pick other-way src/auth.ts --into fix-login", about: "copy one file" },
    { line: "holdfast cherry-pick other-way src --into fix-login", about: "copy a directory" },
    {
      line: "holdfast cherry-pick other-way@7 'src/**/*.test.ts' --into fix-login --dry-run",
      about: "show what copying all tests would change",
    },
  ],
  json: '{"plan": {"run", "source": {...}, "asked": ["path"], "files": {...}, "edited": ["path"], "outward": [{"path", "target"}], "begun"}, "dryRun": true} or with "dryRun": false also "report": {"undo", "checkpoint", "written", "removed"}, null when there was nothing to do. Restore "undo" to undo.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const dryRun = input.on("dry-run");
  const holdfast = await shell.open({ create: false, writes: !dryRun });
  const source = await findSource(holdfast, input);
  const into = await findInto(holdfast, input.text("into"));
  if (into.id === source.run) throw sameRun(source, input.operands.slice(1));
  if (!dryRun) await held(into.id, () => waitForRun(shell, into));
  const plan = await planOf(shell, holdfast, { source, into, typed: input.operands.slice(1) });
  if (dryRun) {
    shell.print({ json: () => ({ plan, dryRun }), text: (page) => planText(plan, page) });
    return "done";
  }
  if (plan.files.changes.length === 0 && plan.begun === null) {
    shell.print({ json: () => ({ plan, dryRun, report: null }), text: () => nothingText(plan) });
    return "done";
  }
  const report = await apply(shell, into, plan, input.on("force"));
  shell.print({ json: () => ({ plan, dryRun, report }), text: (page) => reportText(plan, report, page) });
  return "done";
}

async function findSource(holdfast: Holdfast, input: Input<(typeof spec)["flags"]>): Promise<Checkpoint> {
  const typed = input.operand(0) ?? "";
  const from = input.text("from");
  if (from !== undefined && typed.includes("@")) {
    throw usageError(
      `--from ${from} names a checkpoint, and so does ${typed}`,
      `Write RUN@${from}, or RUN with --from ${from}.`,
    );
  }
  const address = typed.includes("@") ? typed : `${(await findRun(holdfast, typed)).id}@${from ?? "latest"}`;
  const { run: id, sequence } = await holdfast.resolve(address);
  return await (await holdfast.run(id)).get(sequence);
}

async function findInto(holdfast: Holdfast, typed: string | undefined): Promise<RunHandle> {
  if (typed !== undefined) return await holdfast.run((await findRun(holdfast, typed)).id);
  const here = await holdfast.runHere();
  if (here !== undefined) return here;
  throw usageError("No target run is named, and this worktree belongs to no run", "Write --into RUN.");
}

/**
 * Resolves paths relative to the current directory: in the worktree of either run, or in any other worktree of the
 * repository.
 */
async function planOf(
  shell: Shell,
  holdfast: Holdfast,
  params: { readonly source: Checkpoint; readonly into: RunHandle; readonly typed: readonly string[] },
): Promise<CherryPickPlan> {
  const { source, into, typed } = params;
  const places = await Promise.all([
    into.workspace(),
    (await holdfast.run(source.run)).workspace(),
    holdfast.workspaces?.open(shell.cwd).catch(() => undefined),
  ]);
  const roots = places.flatMap((place) => (place === undefined ? [] : [place.root]));
  const names = await worktreePaths({ paths: typed.map(nameAsked), cwd: shell.cwd, roots });
  const paths = names.map((name, at) => (typed[at]?.startsWith(LITERAL) === true ? `${LITERAL}${name}` : name));
  try {
    return await into.planCherryPick({ source, paths });
  } catch (cause) {
    const unknown = cause instanceof HoldfastError && cause.code === "USAGE";
    const path = unknown ? names.find((one) => cause.message.startsWith(`${one} is neither`)) : undefined;
    if (path === undefined) throw cause;
    throw new HoldfastError({
      code: "USAGE",
      message: `${path} is neither in the worktree of ${into.id} nor in ${source.id}`,
      hint: `Show their differences: holdfast compare ${into.id} ${source.id} --stat`,
      cause,
    });
  }
}

async function apply(shell: Shell, into: RunHandle, plan: CherryPickPlan, force: boolean): Promise<CherryPickReport> {
  const work = async (): Promise<CherryPickReport> => {
    try {
      return await held(into.id, () => into.applyCherryPick(plan, { force }));
    } finally {
      await into.close();
    }
  };
  return await shell.finish(work(), {
    done: ({ undo }) => `the files were copied (undo: ${shell.talk.program} restore ${undo.id})`,
    failed: async () => {
      const { unfinishedRestore } = await into.summary();
      return unfinishedRestore === null
        ? null
        : `the cherry-pick did not finish (to finish it, repeat the command; to undo it: ${shell.talk.program} restore ${unfinishedRestore})`;
    },
  });
}

async function held<T>(run: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof HoldfastError) || error.code !== "LEASE_HELD") throw error;
    const { message, retry, data } = error;
    const hint = `Stop it with \`holdfast stop ${run}\`, repeat the command, then \`holdfast resume ${run}\`.`;
    throw new HoldfastError({ code: "LEASE_HELD", message, hint, retry, data, cause: error });
  }
}

function sameRun({ id, run: name }: Checkpoint, paths: readonly string[]): HoldfastError {
  return usageError(
    `${id} is a checkpoint of ${name} itself`,
    `Restore its own files with: holdfast restore ${id} -- ${paths.join(" ")}`,
  );
}

function planText(plan: CherryPickPlan, page: Page): string {
  const { files, source, run, begun } = plan;
  const lines = [
    `Would copy from ${paint(page, "bold", escapeText(source.id))} into ${paint(page, "bold", run)}`,
    `  in ${escapeText(files.root)}`,
    ...(begun === null ? [] : [`  completes the unfinished cherry-pick after ${escapeText(begun.id)}`]),
    `  ${files.changes.length === 0 ? "no difference in these files" : `${countText(files.changes.length, "file")} to change`}`,
    ...files.changes.slice(0, SHOWN).map((change) => changeLine(change, page)),
  ];
  const more = files.changes.length - SHOWN;
  if (more > 0) lines.push(`    … and ${more} more (all with --json)`);
  const warn = (mark: string, style: Style, text: string): void => {
    lines.push(`    ${paint(page, style, mark)} ${truncate(escapeText(text), page.width - 6)}`);
  };
  for (const path of plan.edited) warn("!", "yellow", `${path} was changed since the newest checkpoint: needs --force`);
  for (const { path, target } of plan.outward)
    warn("!", "red", `${path} is a link that points outside, to ${target}: needs --force`);
  for (const path of files.blocked) warn("!", "red", `${path} is in the way, and no checkpoint has it`);
  for (const { path, reason, bytes } of files.untouched)
    if (plan.asked.some((asked) => isBelow(path, nameAsked(asked))))
      warn("=", "yellow", `${path} left alone: ${reasonText(reason, bytes)}`);
  return `${lines.join("\n")}\n`;
}

function nothingText({ source, run }: CherryPickPlan): string {
  return `Nothing to copy: these files of ${escapeText(run)}\n  are the same in ${escapeText(source.id)}.\n`;
}

function reportText(plan: CherryPickPlan, report: CherryPickReport, page: Page): string {
  const { written, removed, checkpoint, undo } = report;
  const counts = `${countText(written, "file")} written, ${removed} removed`;
  return [
    `Copied from ${paint(page, "bold", escapeText(plan.source.id))} into ${escapeText(plan.run)}:`,
    `  ${counts}. Saved as ${escapeText(checkpoint.id)}.`,
    `To undo: ${paint(page, "bold", `${page.program} restore ${escapeText(undo.id)}`)}`,
    "",
  ].join("\n");
}

const SHOWN = 20;

/** Run files on the command line: `format export --to run` writes one, `format import` reads one. */
import { closeSync, openSync, readSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { byteText } from "@holdfast/core/store-size";
import type { Holdfast } from "../../holdfast.ts";
import type { RunImport } from "../../interop/move-run.ts";
import { isRunFile } from "../../interop/run-file.ts";
import type { Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { paint } from "../output/page.ts";
import { countText } from "../output/quantities.ts";
import { nextText } from "../output/status-text.ts";
import { escapeText } from "../output/text.ts";
import { explainHolder } from "../run-holder.ts";

export async function exportRunFile(
  shell: Shell,
  holdfast: Holdfast,
  params: {
    readonly address: string;
    readonly output: string | undefined;
    readonly withSecrets: boolean;
    readonly dryRun: boolean;
  },
): Promise<Exit> {
  const { address, output, withSecrets, dryRun } = params;
  if (address.includes("@"))
    throw usageError("A run file holds a whole run, not one checkpoint", "Name the run alone.");
  if (output === undefined && !dryRun)
    throw usageError("A run file is binary", "Name the file to write: --output FILE.");
  const { id } = await holdfast.resolveRun(address);
  const planned = await explainHolder(() => holdfast.formats.planRunExport(id));
  const written = output === undefined || dryRun ? [] : [resolve(shell.cwd, output)];
  for (const path of written) await holdfast.formats.writeRunExport(planned, { path, withSecrets });
  const { bytes, entries, checkpoints, prerequisites, secrets, unsearched, unsaved } = planned;
  const size = bytes.length;
  shell.print({
    json: () => ({
      run: id,
      to: "run",
      written,
      bytes: size,
      entries,
      checkpoints,
      prerequisites,
      secrets,
      unsearched,
      unsaved,
    }),
    text: (page) => {
      const what = `${paint(page, "bold", id)}: ${countText(checkpoints, "checkpoint")}, ${countText(entries, "entry", "entries")}, ${byteText(size)}`;
      return `${written.length === 0 ? "Would write" : `Wrote ${escapeText(written.join(""))} with`} ${what}\n`;
    },
  });
  for (const { where, kind } of dryRun ? secrets : []) shell.notify(`secret: ${escapeText(`${where} (${kind})`)}`);
  if (unsearched) shell.notify("The files are too large to be searched for secrets as a whole.");
  if (unsaved)
    shell.notify(
      `The worktree has changes that no checkpoint holds, and that are not in the file. Save them first: ${shell.talk.program} checkpoint --run ${id}`,
    );
  shell.notify("Continue the run in one place only: two copies would both push its branch.");
  return "done";
}

/** Whether the user named one run file. Several paths, directories and missing files are left to the other formats. */
export function namesRunFile(shell: Shell, paths: readonly string[]): boolean {
  const [path] = paths;
  if (path === undefined || paths.length > 1) return false;
  const start = Buffer.alloc(32);
  try {
    // Opening a FIFO blocks until another process writes to it, and no signal ends that.
    if (!statSync(resolve(shell.cwd, path)).isFile()) return false;
    const file = openSync(resolve(shell.cwd, path), "r");
    try {
      return isRunFile(start.subarray(0, readSync(file, start)));
    } finally {
      closeSync(file);
    }
  } catch {
    return false;
  }
}

export async function importRunFile(
  shell: Shell,
  holdfast: Holdfast,
  params: { readonly path: string; readonly run: string | undefined; readonly dryRun: boolean },
): Promise<Exit> {
  if (params.run !== undefined)
    throw usageError(
      "A run file keeps the id of its run",
      "Leave out --run: the hash chain of the journal covers the id.",
    );
  const planned = await holdfast.formats.planRunImport({
    path: resolve(shell.cwd, params.path),
    protect: await protectedBranches(shell, holdfast),
  });
  const report = params.dryRun
    ? null
    : await shell.finish(holdfast.formats.applyRunImport(planned), {
        done: ({ run, changed }) => (changed ? `run ${run} was imported` : null),
      });
  const { run, source, entries, checkpoints, before } = planned;
  const from = { store: source.store, createdAt: source.createdAt };
  shell.print({
    json: () => ({
      run,
      format: "run",
      from,
      entries,
      checkpoints,
      before,
      ...(report === null ? {} : { changed: report.changed }),
    }),
    text: (page) => importText(planned, report, paint(page, "bold", escapeText(run))),
  });
  if (report === null) return "done";
  const next = nextText(await holdfast.status(run), shell.talk);
  shell.notify(`Show it:     ${shell.talk.program} show ${run}\n${next === "" ? "It is done." : next}`);
  return "done";
}

function importText(planned: RunImport, report: { readonly changed: boolean } | null, run: string): string {
  const what = `${countText(planned.checkpoints, "checkpoint")} and ${countText(planned.entries, "entry", "entries")}, exported at ${escapeText(planned.source.createdAt)}`;
  if (planned.before === "whole" && report?.changed !== true)
    return `Nothing to do: ${run} is here already, ${what}.\n`;
  return `${report === null ? "Would import" : "Imported"} ${run}: ${what}.\n`;
}

/** The default branch of the remote: a run must never push to it. */
async function protectedBranches(shell: Shell, holdfast: Holdfast): Promise<readonly string[]> {
  if (holdfast.workspaces === null) return [];
  try {
    const { branches } = await holdfast.work.adapters();
    const branch = await (await branches.asking(shell.cwd)).defaultBranch();
    return branch === null ? [] : [branch];
  } catch (error) {
    if (error instanceof HoldfastError) return [];
    throw error;
  }
}

/** The worktree of a restored run: creates it again if it is gone, and sets it up again if it needs that. */
import type { CheckpointSummary } from "@holdfast/core/checkpoint";
import type { RunRestorePlan } from "@holdfast/core/restore";
import type { RunHandle } from "@holdfast/core/run-handle";
import { HoldfastError } from "@holdfast/platform/error";
import type { Holdfast } from "../holdfast.ts";
import type { Shell } from "./command.ts";
import type { Exit } from "./exit.ts";
import { type Page, type Style, paint } from "./output/page.ts";
import { escapeText } from "./output/text.ts";
import { importedItems } from "./run-consent.ts";
import { releaseAfter } from "./run-holder.ts";

export function showRebuild(shell: Shell, target: CheckpointSummary, rebuilds: string): Exit {
  shell.print({
    json: () => ({ plan: null, lost: [], toolchain: [], rebuilds, dryRun: true }),
    text: () =>
      `Would create the worktree ${escapeText(rebuilds)} again, with the files of the newest checkpoint, and then restore ${target.id}.\n`,
  });
  return "done";
}

/** Creates a worktree again that is gone. Returns whether the user agreed. */
export async function rebuild(shell: Shell, handle: RunHandle, path: string, isAgreed: boolean): Promise<boolean> {
  const answer = isAgreed ? "yes" : await shell.confirm(`The worktree ${path} is gone. Create it again?`);
  if (answer === "cannot_ask")
    throw new HoldfastError({
      code: "NEEDS_DECISION",
      message: `Not a terminal: cannot ask whether the worktree ${path} may be created again`,
      hint: "Check with --dry-run, then run the same command with --yes.",
    });
  if (answer === "no") shell.notify("Not restored; nothing was changed.");
  if (answer !== "yes") return false;
  const work = releaseAfter(handle, () => handle.rebuildWorktree());
  await shell.finish(work, { done: () => `the worktree ${path} was created again` });
  shell.notify(`Created the worktree ${escapeText(path)} again.`);
  return true;
}

interface RestoredSetup {
  readonly outcome: "done" | "failed" | "skipped";
  readonly text: string;
}

/** Sets the restored worktree up again, if it needs that and the user has consented to it as for a run. */
export async function setUpAgain(
  shell: Shell,
  holdfast: Holdfast,
  plan: RunRestorePlan,
): Promise<RestoredSetup | null> {
  const { run } = plan;
  if (plan.files === null || !(await holdfast.work.isSetUp(run))) return null;
  const { setup, copy } = (await shell.consent.stated()).settings.workspace;
  if ((setup ?? []).length + copy.length === 0) return null;
  const later = `${shell.talk.program} resume ${run}`;
  const allowed = (await shell.config()).settings.workspace;
  const isAllowed = JSON.stringify([setup, copy]) === JSON.stringify([allowed.setup, allowed.copy]);
  const imported = await importedItems(holdfast, { run });
  if (!isAllowed || !imported.every((item) => shell.consent.isTrusted(item)))
    return {
      outcome: "skipped",
      text: `The worktree was not set up: that needs your consent, which \`${later}\` asks for.`,
    };
  const listen = ({ text, output = [] }: { readonly text: string; readonly output?: readonly string[] }): void =>
    shell.notify([text, ...output.map((line) => `  | ${line}`)].map((line) => escapeText(line)).join("\n"));
  const again = `\`${later}\` repeats it.`;
  try {
    const work = holdfast.work.setUpRestored(run, { signal: shell.signal, listen });
    const outcome = await shell.finish(work, {
      done: (value) => (value === null ? null : value.text),
      failed: () => Promise.resolve(`the set-up of the worktree did not finish; ${again}`),
    });
    if (outcome === null) return null;
    const { kind, text } = outcome;
    return { outcome: kind, text: kind === "failed" ? `${text}. ${again}` : text };
  } catch (error) {
    // The process that holds the run sets the worktree up before it works there.
    if (!(error instanceof HoldfastError) || error.code !== "LEASE_HELD") throw error;
    return { outcome: "skipped", text: `The worktree was not set up: another process continues ${run}.` };
  }
}

export function setupText(setup: RestoredSetup | null, page: Page): string {
  if (setup === null) return "";
  const { mark, style } = MARKS[setup.outcome];
  return `${paint(page, style, mark)} ${escapeText(setup.text)}\n`;
}

const MARKS: Readonly<Record<RestoredSetup["outcome"], { readonly mark: string; readonly style: Style }>> = {
  done: { mark: "✓", style: "green" },
  skipped: { mark: "-", style: "dim" },
  failed: { mark: "✗", style: "red" },
};

/** The `undo` command: takes back side effects of a run where their target allows it. */
import type { UndoPreview, UndoReport } from "@holdfast/core/undo";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import type { Holdfast } from "../../holdfast.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { findRun } from "../operands.ts";
import { type Page, type Style, paint } from "../output/page.ts";
import { escapeText } from "../output/text.ts";
import { explainHolder, waitForRun } from "../run-holder.ts";

export const spec = {
  name: "undo",
  summary: "take back a push, a pull request, a label or a comment of a run",
  details: [
    "Without EFFECT, lists the side effects of the run and says for each whether it can be undone now. With EFFECT, shows what would change, asks, and undoes it. EFFECT is the key in the list, its end, or its kind if the run has only one of that kind.",
    "A pull request is closed, if this run opened it and it is not merged. A pushed branch is deleted, or put back to the commit that the push replaced, if the remote still has the commit that the run pushed and no pull request is open for it. A label is removed, a comment deleted. A merge, a commit and the text of a pull request cannot be undone; the output says why and what to do instead.",
    "The undo is recorded before and after it happens. After a crash, run the same command again: it asks the forge or the remote first, so nothing is undone twice. A run that a process executes is refused (exit status 5).",
    "A run that is done remains done. A run that continues repeats an undone effect when it needs it again.",
  ],
  operands: [
    { name: "RUN", about: "the run, or its issue number", required: true, completes: "run" },
    { name: "EFFECT", about: "the effect to undo; without it, list them", required: false, completes: "nothing" },
  ],
  consent: "works",
  flags: {
    "dry-run": { type: "boolean", about: "show what would change, and change nothing" },
    yes: { type: "boolean", short: "y", about: "do not ask" },
  },
  examples: [
    { line: "holdfast undo issue-42", about: "list the run's side effects, and which can be undone" },
    { line: "holdfast undo issue-42 pull_request --dry-run", about: "show what would be closed" },
    { line: "holdfast undo issue-42 push --yes", about: "delete the pushed branch without asking" },
  ],
  json: '{"run": "id", "effects": [{"key", "kind", "target", "state": "intended", "unknown", "done", "failed", "undoing" or "undone", "at", "entry", "what", "can", "why", "hint"}]}; with EFFECT {"run", "effect": {as above}, "dryRun", "report": null or {"key", "kind", "target", "what", "adopted", "receipt"}}. "adopted": the target reported it as undone before Holdfast acted.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const [typed, named] = [input.operand(0), input.operand(1)];
  const dryRun = input.on("dry-run");
  const holdfast = await shell.open({ create: false, writes: named !== undefined && !dryRun });
  const { id } = await findRun(holdfast, typed);
  const effects = await holdfast.effects(id);
  if (named === undefined) {
    shell.print({ json: () => ({ run: id, effects }), text: (page) => listText(id, effects, page) });
    const next = effects.findLast(({ can, state }) => can && state !== "undone");
    if (next !== undefined) shell.notify(`Undo one: ${shell.talk.program} undo ${id} ${next.key}`);
    return "done";
  }
  const effect = findEffect(id, effects, named);
  if (dryRun) {
    shell.print({ json: () => ({ run: id, effect, dryRun, report: null }), text: (page) => undoLine(effect, page) });
    return "done";
  }
  const handle = await holdfast.run(id);
  await waitForRun(shell, handle);
  // The engine refuses what cannot be undone. A question before that would be pointless.
  if (effect.can && !input.on("yes") && !(await decide(shell, id, effect))) return "needs_you";
  const report = await undo(shell, holdfast, id, effect.key);
  shell.print({
    json: () => ({ run: id, effect, dryRun, report }),
    text: (page) => undoneLine(report, page),
  });
  return "done";
}

/** Undoes one effect. Ctrl+C does not cut it in half. */
export async function undo(shell: Shell, holdfast: Holdfast, run: string, key: string): Promise<UndoReport> {
  const work = explainHolder(() => holdfast.undo(run, key));
  return await shell.finish(work, { done: ({ kind, target }) => `${kind} on ${target} was undone` });
}

/** By its key, the end of its key, or its kind. Effects that are undone already count only if no other has the name. */
function findEffect(run: string, effects: readonly UndoPreview[], named: string): UndoPreview {
  const matches = effects.filter(({ key, kind }) => key === named || key.endsWith(`/${named}`) || kind === named);
  const exact = matches.find(({ key }) => key === named);
  const left = matches.filter(({ state }) => state !== "undone");
  const [found, ...others] = exact !== undefined ? [exact] : left.length > 0 ? left : matches.slice(-1);
  if (found !== undefined && others.length === 0) return found;
  if (found === undefined)
    throw usageError(
      `Run ${run} has no effect ${JSON.stringify(named)}`,
      `\`holdfast undo ${run}\` lists its effects.`,
    );
  const keys = [found, ...others].map(({ key }) => key);
  throw usageError(
    `${JSON.stringify(named)} means ${keys.length} effects of ${run}`,
    `Name one of them: ${keys.join(", ")}.`,
    { candidates: keys },
  );
}

async function decide(shell: Shell, run: string, effect: UndoPreview): Promise<boolean> {
  shell.notify(undoLine(effect, shell.talk));
  const answer = await shell.confirm("Undo it?");
  if (answer === "yes") return true;
  if (answer === "no") {
    shell.notify("Nothing was changed.");
    return false;
  }
  throw new HoldfastError({
    code: "NEEDS_DECISION",
    message: `Not a terminal: cannot ask whether ${effect.kind} on ${effect.target} may be undone`,
    hint: `Check with --dry-run, then run: holdfast undo ${run} ${effect.key} --yes`,
  });
}

function listText(run: string, effects: readonly UndoPreview[], page: Page): string {
  if (effects.length === 0) return `${escapeText(run)} has no side effects.\n`;
  return effects.map((effect) => undoLine(effect, page)).join("");
}

const STYLES: Readonly<Partial<Record<UndoPreview["state"], Style>>> = { done: "green", failed: "red", undone: "dim" };

/** An effect, its state, and what its undo would change or why it cannot be undone. */
export function undoLine({ key, kind, target, state, what, can, why, hint }: UndoPreview, page: Page): string {
  const style = STYLES[state] ?? "yellow";
  const reason = can
    ? `${what ?? ""}.`
    : `Cannot be undone: ${why ?? ""}.${hint === null || hint === "" ? "" : ` ${hint}`}`;
  const head = `${paint(page, "bold", escapeText(key))}  ${paint(page, style, state)}`;
  return `${head}\n  ${escapeText(kind)} on ${escapeText(target)}\n  ${escapeText(state === "undone" ? "Undone." : reason)}\n`;
}

export function undoneLine({ kind, target, adopted }: UndoReport, page: Page): string {
  const how = adopted ? "had been undone already; this is recorded now" : "is undone";
  return `${paint(page, "green", "✓")} ${escapeText(kind)} on ${escapeText(target)} ${how}.\n`;
}

import type { Comparison, Holdfast } from "../../../app.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Input, Shell } from "../../command.ts";
import { findRun } from "../../find-run.ts";
import { spentKnown } from "../../output/spent-text.ts";
import { worktreePaths } from "../../worktree-paths.ts";
import { choiceText } from "./choice-view.ts";
import { choose } from "./choose.ts";
import { comparisonText } from "./view.ts";
import type { compareSpec } from "./spec.ts";

const MOST = 8;

export async function run(shell: Shell, input: Input<(typeof compareSpec)["flags"]>): Promise<Exit> {
  if (input.operands.length > MOST) throw tooMany(input.operands.length);
  if (input.on("patch") && input.on("stat")) throw both();
  const holdfast = await shell.open({ create: false, writes: input.text("choose") !== undefined });
  const addresses: string[] = [];
  for (const typed of input.operands) addresses.push(await addressOf(holdfast, typed));
  const winner = input.text("choose");
  const chosen = winner === undefined ? undefined : await addressOf(holdfast, winner);
  const paths = await readPaths(shell, holdfast, { addresses, typed: input.paths });
  const text = input.on("patch") ? "patch" : input.on("stat") ? "stat" : undefined;
  const compared: Comparison = await holdfast.compare(addresses, {
    ...(paths.length === 0 ? {} : { paths }),
    ...(text === undefined ? {} : { text }),
  });
  const choice = chosen === undefined ? null : await choose(shell, holdfast, { compared, chosen });
  shell.print({
    json: () => ({ ...compared, runs: compared.runs.map(sideJson), choice }),
    ...(compared.diffs.length > 0 ? { content: true as const } : {}),
    text: (page) => comparisonText(compared, page) + (choice === null ? "" : `\n${choiceText(compared, choice, page)}`),
  });
  return "done";
}

function sideJson(side: Comparison["runs"][number]) {
  const { spent, ownSpent } = side;
  return { ...side, spent: spentKnown(spent), ownSpent: ownSpent === null ? null : spentKnown(ownSpent) };
}

/** An issue number means its run, as elsewhere. */
async function addressOf(holdfast: Holdfast, typed: string): Promise<string> {
  return typed.includes("@") ? typed : (await findRun(holdfast, typed)).id;
}

/** Paths count from where somebody stands: in the worktree of one of the runs, or any other of the repository. */
async function readPaths(
  shell: Shell,
  holdfast: Holdfast,
  params: { readonly addresses: readonly string[]; readonly typed: readonly string[] },
): Promise<readonly string[]> {
  if (params.typed.length === 0) return [];
  const here = await holdfast.workspaces?.open(shell.cwd).catch(() => undefined);
  const roots: string[] = here === undefined ? [] : [here.root];
  for (const address of params.addresses) {
    const { id } = await holdfast.resolveRun(address);
    const root = (await (await holdfast.run(id)).workspace())?.root;
    if (root !== undefined) roots.push(root);
  }
  return await worktreePaths({ paths: params.typed, cwd: shell.cwd, roots });
}

function tooMany(count: number): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `${count} runs are more than can be laid side by side`,
    hint: `Compare ${MOST} at most.`,
  });
}

function both(): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: "--patch and --stat ask for two different things",
    hint: "Choose one of them.",
  });
}

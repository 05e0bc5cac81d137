import type { Holdfast, HoldfastDiff, RunHandle } from "../../../app.ts";
import type { CheckpointSummary } from "../../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Input, Shell } from "../../command.ts";
import { leftOutLine } from "../../output/left-out.ts";
import { resolveAddress } from "../../resolve-address.ts";
import { unknownPath } from "../../unknown-path.ts";
import { worktreePaths } from "../../worktree-paths.ts";
import { notCompared } from "./not-compared.ts";
import { diffText } from "./view.ts";
import type { diffSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof diffSpec)["flags"]>): Promise<Exit> {
  if (input.on("stat") && input.on("name-only")) {
    throw new HoldfastError({
      code: "USAGE",
      message: "--stat and --name-only ask for two different things",
      hint: "Choose one of them.",
    });
  }
  const format = input.on("stat") ? "stat" : input.on("name-only") ? "names" : "patch";
  const holdfast = await shell.open({ create: false });
  const from = await addressOf(shell, holdfast, input.operand(0) ?? `${(await holdfast.resolveRun()).id}@latest`);
  const typed = input.operand(1);
  const to = typed === undefined ? null : await addressOf(shell, holdfast, typed);
  const handle = await holdfast.run(from.run);
  const worktree = (await handle.workspace())?.root ?? null;
  const paths = await readPaths({ shell, holdfast, to, worktree, typed: input.paths });
  const diff = await holdfast.diff({
    from: from.id,
    ...(to === null ? {} : { to: to.id }),
    ...(paths.length === 0 ? {} : { paths }),
    format,
    color: false,
  });
  if (isEmpty(diff) && paths.length > 0) await refuseUnknown({ shell, holdfast, handle, from, worktree, paths });
  const left = notCompared(diff, paths);
  const other = to?.id ?? (worktree === null ? "the worktree" : `the worktree ${worktree}`);
  if (to === null && !isEmpty(diff) && diff.files !== null) shell.say(`Between ${from.id} and ${other}:`);
  shell.print({
    content: true,
    json: () => ({
      from: from.id,
      to: to?.id ?? null,
      worktree: to === null ? worktree : null,
      files: diff.files?.files ?? [],
      text: diff.files?.text ?? "",
      values: diff.values,
      notCompared: left,
    }),
    text: (page) => diffText(diff, format, page),
  });
  if (isEmpty(diff)) shell.say(`No difference between ${from.id} and ${other}.`);
  if (diff.files === null) shell.say("Files were not compared: a side has none saved.");
  else shell.say(left.map((one) => leftOutLine(one, "not compared", shell.talk)).join(""));
  return "done";
}

function addressOf(shell: Shell, holdfast: Holdfast, typed: string): Promise<CheckpointSummary> {
  return resolveAddress(shell, holdfast, { typed, instead: "holdfast diff" });
}

/** Two checkpoints can be compared from any worktree of the repository, so there the one we stand in counts too. */
async function readPaths(params: {
  readonly shell: Shell;
  readonly holdfast: Holdfast;
  readonly to: CheckpointSummary | null;
  readonly worktree: string | null;
  readonly typed: readonly string[];
}): Promise<readonly string[]> {
  const { shell, holdfast, to, worktree, typed } = params;
  if (typed.length === 0) return [];
  const here = to === null ? undefined : await holdfast.workspaces?.open(shell.cwd).catch(() => undefined);
  const roots = [...(worktree === null ? [] : [worktree]), ...(here === undefined ? [] : [here.root])];
  return await worktreePaths({ paths: typed, cwd: shell.cwd, roots });
}

/** That a name nobody knows "has no difference" would be a lie. A path that differs is known, so only silence is checked. */
async function refuseUnknown(params: {
  readonly shell: Shell;
  readonly holdfast: Holdfast;
  readonly handle: RunHandle;
  readonly from: CheckpointSummary;
  readonly worktree: string | null;
  readonly paths: readonly string[];
}): Promise<void> {
  const { handle, from, worktree, paths } = params;
  if (worktree === null) return;
  try {
    await handle.planRestore({ sequence: from.sequence, paths });
  } catch (cause) {
    if (!(cause instanceof HoldfastError) || cause.code !== "USAGE") return;
    throw await unknownPath({ ...params, target: from, root: worktree, cause });
  }
}

function isEmpty(diff: HoldfastDiff): boolean {
  return diff.values.length === 0 && diff.files !== null && diff.files.files.length === 0;
}

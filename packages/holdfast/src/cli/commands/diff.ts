/** The `diff` command: compares two checkpoints, or one with the worktree. */
import type { CheckpointSummary } from "@holdfast/core/checkpoint";
import type { RunHandle } from "@holdfast/core/run-handle";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import type { Holdfast, HoldfastDiff } from "../../holdfast.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { inScope, resolveAddress, unknownPath, worktreePaths } from "../operands.ts";
import { type Page, type Style, paint } from "../output/page.ts";
import { type SkippedPath, skippedLine, skippedPaths } from "../output/run-text.ts";
import { escapeLines, quoteName, valueLine } from "../output/text.ts";

export const spec = {
  name: "diff",
  summary: "show what changed between checkpoints, or since one",
  details: [
    "Compares files and saved state. TO defaults to the current worktree, FROM to the latest checkpoint. State changes come first, then the patch as git prints it. In a pipe the patch has no colours, so git apply accepts it.",
    "Files that a checkpoint does not include (too large, or in a nested git repository) are listed as not compared.",
  ],
  operands: [
    { name: "FROM", about: "an address; default the latest checkpoint", required: false, completes: "address" },
    { name: "TO", about: "an address; default the current worktree", required: false, completes: "address" },
  ],
  consent: "reads",
  paths: true,
  flags: {
    stat: { type: "boolean", about: "the number of changed lines in each file" },
    "name-only": { type: "boolean", about: "only the names of changed files" },
  },
  examples: [
    { line: "holdfast diff", about: "what changed since the last checkpoint" },
    { line: "holdfast diff fix-login@2 fix-login@5 --stat", about: "summarize the changes between two checkpoints" },
    {
      line: "holdfast diff fix-login@works -- src/auth",
      about: "compare with a tagged checkpoint, one directory only",
    },
  ],
  reads: true,
  json: '{"from": "RUN@n", "to": "RUN@n" or null, "worktree": "path" or null, "files": [{"path", "status", "from"}], "text": "as git prints it", "values": [{"path", "from", "to"}], "notCompared": [{"path", "why"}]}. A side that had no value lacks its key. With --name-only and --stat the same keys; only "text" differs: the names, or the counts.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  if (input.on("stat") && input.on("name-only")) {
    throw usageError("--stat and --name-only exclude each other", "Use one of them.");
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
  if (to === null && !isEmpty(diff) && diff.files !== null) shell.notify(`Between ${from.id} and ${other}:`);
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
  if (isEmpty(diff)) shell.notify(`No difference between ${from.id} and ${other}.`);
  if (diff.files === null) shell.notify("Files were not compared: a side has none saved.");
  else shell.notify(left.map((one) => skippedLine(one, "not compared", shell.talk)).join(""));
  return "done";
}

function addressOf(shell: Shell, holdfast: Holdfast, typed: string): Promise<CheckpointSummary> {
  return resolveAddress(shell, holdfast, { typed, instead: "holdfast diff" });
}

/** Two checkpoints can be compared from any worktree of the repository, so the current worktree counts too. */
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

/**
 * Rejects an unknown path, because "no difference" would be false for it. A path with a difference is known, so this
 * runs only if there is none.
 */
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

/** Paths that the capture of a side left out and that the diff does not show: "no difference" does not cover them. */
function notCompared(diff: HoldfastDiff, typed: readonly string[]): readonly SkippedPath[] {
  const paths = typed.length === 0 ? null : typed;
  const shown = new Set(diff.files?.files.map(({ path }) => path));
  const left = new Map<string, SkippedPath>();
  for (const one of diff.leftOut.flatMap(skippedPaths)) {
    const path = one.path.replace(/\/$/, "");
    const asked = paths === null || inScope(path, paths) || paths.some((inner) => inScope(inner, [path]));
    if (asked && !shown.has(path)) left.set(one.path, one);
  }
  return [...left.values()];
}

/** State first, then files: `git apply` skips text before a patch, not text after it. */
export function diffText(diff: HoldfastDiff, format: "patch" | "stat" | "names", page: Page): string {
  const values = format === "names" ? "" : diff.values.map((change) => valueLine(change, page)).join("");
  const files = format === "names" ? namesOf(diff) : (diff.files?.text ?? "");
  const body = files === "" || files.endsWith("\n") ? files : `${files}\n`;
  const gap = values !== "" && body !== "" ? "\n" : "";
  return values + gap + (format === "patch" ? patchText(body, page) : escapeForEyes(body, page));
}

function namesOf(diff: HoldfastDiff): string {
  return (diff.files?.files ?? []).map(({ path }) => `${quoteName(path)}\n`).join("");
}

/**
 * Writes the patch unchanged to a pipe. A terminal gets our own colours, and control characters of the files are
 * escaped.
 */
function patchText(patch: string, page: Page): string {
  const safe = escapeForEyes(patch, page);
  if (!page.color) return safe;
  return safe
    .split("\n")
    .map((line) => {
      const style = styleOf(line);
      return style === undefined ? line : paint(page, style, line);
    })
    .join("\n");
}

function escapeForEyes(text: string, page: Page): string {
  return page.terminal ? escapeLines(text) : text;
}

function styleOf(line: string): Style | undefined {
  if (/^(diff |index |--- |\+\+\+ |new file|deleted file|old mode|new mode|similarity|rename)/.test(line))
    return "bold";
  if (line.startsWith("@@")) return "cyan";
  if (line.startsWith("+")) return "green";
  return line.startsWith("-") ? "red" : undefined;
}

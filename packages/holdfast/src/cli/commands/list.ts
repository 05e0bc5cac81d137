/** The `list` command: lists runs, or the checkpoints of one run. */
import { TRIGGERS, type Trigger } from "@holdfast/core/checkpoint";
import type { HalfRemovedRun } from "@holdfast/core/adapters";
import { STATUS_KINDS, isHalfRestored } from "@holdfast/core/status";
import type { Store } from "@holdfast/core/store";
import { usageError } from "@holdfast/platform/error";
import type { RunList } from "../../open-store.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import type { Page } from "../output/page.ts";
import {
  type ListedRun,
  checkpointsText,
  moreText,
  noRuns,
  rowsText,
  runsText,
  unfinishedRestoreText,
} from "../output/run-text.ts";
import { parseLimit } from "../parse-arguments.ts";
import { runJson } from "../run-json.ts";

export const spec = {
  name: "list",
  summary: "list runs, or the checkpoints of one run",
  details: [
    "Newest first. Without RUN the runs of this repository; with RUN its checkpoints.",
    "With --all-repositories the runs of every repository of this user that has a store, as `holdfast ui` shows them: those that need you first, then running and waiting ones, then finished ones.",
    "ADDED is what the record of a checkpoint took in the store; its files are git objects.",
  ],
  operands: [{ name: "RUN", about: "a run id; its checkpoints are listed", required: false, completes: "run" }],
  consent: "reads",
  flags: {
    limit: { type: "text", short: "n", value: "N", about: 'at most N, or "all" (default 30)' },
    trigger: {
      type: "text",
      value: "TRIGGER",
      about: "only checkpoints taken for this reason (with RUN)",
      choices: TRIGGERS,
    },
    stage: { type: "text", value: "STAGE", about: "only checkpoints of this stage (with RUN)" },
    status: {
      type: "text",
      value: "STATUS",
      about: "only runs with this status; may be repeated",
      choices: STATUS_KINDS,
    },
    workflow: { type: "text", value: "NAME", about: "only runs of this workflow" },
    "all-repositories": { type: "boolean", about: "the runs of all repositories of this user" },
  },
  examples: [
    { line: "holdfast list", about: "the runs, newest first" },
    { line: "holdfast list --status failed --status crashed", about: "the runs that need attention" },
    { line: "holdfast list --all-repositories", about: "the runs of all repositories, those that need you first" },
    { line: "holdfast list fix-login", about: "the checkpoints of one run" },
    { line: "holdfast list fix-login --trigger manual -n 5", about: "the last five that were taken by hand" },
  ],
  reads: true,
  json: '{"runs": [...]}, or with RUN {"run": {...}, "checkpoints": [...]}. A run object is {"id", "workflow", "work", "status": {"kind": "running" | "queued" | "waiting" | "paused" | "crashed" | "saved" | "done" | "failed" | "aborted", ...}, "stage", "iteration", "checkpoints", "latest", "createdAt", "forkedFrom", "labels", "entries", "unfinishedRestore"}, in the output of every command. With --all-repositories each run also has "repository", and "problems": [{"repository", "problem": {"code", "message", "hint", "command"}}] names repositories that cannot be read. "halfRemoved": [{"run", "removedAt", "by"}] is present if a removal was interrupted.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const limit = parseLimit(input.text("limit"), 30);
  const address = input.operand(0);
  if (input.on("all-repositories")) return await listEverywhere(shell, input, { address, limit });
  return address === undefined ? listRuns(shell, input, limit) : listCheckpoints(shell, input, { address, limit });
}

async function listRuns(shell: Shell, input: Input<(typeof spec)["flags"]>, limit: number | undefined): Promise<Exit> {
  for (const flag of ["trigger", "stage"] as const) {
    if (input.text(flag) !== undefined) {
      throw usageError(
        `--${flag} chooses among checkpoints, and no run is named`,
        `Name one: holdfast list RUN --${flag} ...`,
      );
    }
  }
  // Without a store the list is empty; this is not a failure.
  const list = await shell.openRunList();
  const found = list === undefined ? [] : await readRuns(list, input, limit);
  const filtered = input.texts("status").length > 0 || input.text("workflow") !== undefined;
  const halfRemoved = filtered ? [] : ((await list?.halfRemovedRuns()) ?? []);
  const runs = limit === undefined ? found : found.slice(0, limit);
  const named = shell.json || list === undefined ? runs : await withNames(list.store, runs);
  shell.print({
    json: () => ({
      runs: runs.map((run) => runJson({ run, status: run.status })),
      ...(halfRemoved.length === 0 ? {} : { halfRemoved }),
    }),
    text: (page) => (runs.length === 0 ? "" : runsText(named, page)) + halfRemovedText(halfRemoved, page),
  });
  if (runs.length === 0 && filtered) shell.notify(`No run matches. All of them:\n  ${shell.talk.program} list`);
  else if (runs.length === 0 && halfRemoved.length === 0) shell.notify(noRuns(shell.talk.program));
  if (found.length > runs.length) shell.notify(moreText("run", runs.length));
  return "done";
}

/** The page of `holdfast ui` gives a run the same title. */
async function withNames(store: Store, runs: readonly ListedRun[]): Promise<readonly ListedRun[]> {
  if (!runs.some(({ work }) => work.kind === "none")) return runs;
  const { savedName } = await import("../../run-status.ts");
  return await Promise.all(runs.map(async (run) => ({ ...run, name: await savedName(store, run) })));
}

/** The query of the page: both show the same runs in the same order. */
async function listEverywhere(
  shell: Shell,
  input: Input<(typeof spec)["flags"]>,
  params: { readonly address: string | undefined; readonly limit: number | undefined },
): Promise<Exit> {
  if (params.address !== undefined || input.text("trigger") !== undefined || input.text("stage") !== undefined)
    throw usageError("--all-repositories lists runs, and takes no RUN, --trigger or --stage", "Leave out one of them.");
  const [{ EVERY_RUN, Repositories, readRuns }, { listRepositories }] = await Promise.all([
    import("../../ui/repositories.ts"),
    import("../../repository-registry.ts"),
  ]);
  const now = (): number => Date.now();
  await using repositories = new Repositories({ list: () => listRepositories(shell.env, now()), now, waits: true });
  const { rows, problems } = await readRuns(repositories, {
    ...EVERY_RUN,
    statuses: new Set(input.texts("status")),
    workflow: input.text("workflow") ?? null,
    limit: params.limit ?? Number.MAX_SAFE_INTEGER,
  });
  const shown = params.limit === undefined ? rows : rows.slice(0, params.limit);
  shell.print({
    json: () => ({ runs: shown.map(({ run, repository }) => ({ ...run, repository })), problems }),
    text: (page) => (shown.length === 0 ? "" : rowsText(shown, page)),
  });
  for (const { repository, problem } of problems) shell.notify(`${repository}: ${problem.message}`);
  if (rows.length === 0 && problems.length === 0) shell.notify("No repository of this user has a run that matches.");
  if (shown.length < rows.length) shell.notify(moreText("run", shown.length));
  return "done";
}

function halfRemovedText(runs: readonly HalfRemovedRun[], { program }: Page): string {
  return runs.map(({ run }) => `${run}: half removed. Complete it: ${program} rm ${run}\n`).join("");
}

async function readRuns(
  list: RunList,
  input: Input<(typeof spec)["flags"]>,
  limit: number | undefined,
): Promise<readonly ListedRun[]> {
  const kinds = new Set(input.texts("status"));
  const workflow = input.text("workflow");
  const found = await list.statuses({
    ...(workflow === undefined ? {} : { workflow }),
    ...(limit === undefined || kinds.size > 0 ? {} : { limit: limit + 1 }),
  });
  return found
    .filter(({ status }) => kinds.size === 0 || kinds.has(status.kind))
    .map(({ run, status }) => ({ ...run, status }));
}

async function listCheckpoints(
  shell: Shell,
  input: Input<(typeof spec)["flags"]>,
  params: { readonly address: string; readonly limit: number | undefined },
): Promise<Exit> {
  const holdfast = await shell.open({ create: false });
  const { run, status } = await holdfast.runWithStatus((await holdfast.resolveRun(params.address)).id);
  const trigger = triggerOf(input.text("trigger"));
  const stage = input.text("stage");
  const handle = await holdfast.run(run.id);
  const found = await handle.list({
    ...(params.limit === undefined ? {} : { limit: params.limit + 1 }),
    ...(trigger === undefined ? {} : { trigger }),
    ...(stage === undefined ? {} : { stage }),
  });
  const checkpoints = params.limit === undefined ? found : found.slice(0, params.limit);
  shell.print({
    json: () => ({ run: runJson({ run, status }), checkpoints }),
    text: (page) =>
      (isHalfRestored({ ...run, status }) ? unfinishedRestoreText(run, page) : "") +
      (checkpoints.length === 0 ? "" : checkpointsText(checkpoints, page)),
  });
  if (checkpoints.length === 0)
    shell.notify(noCheckpoints(run.id, trigger !== undefined || stage !== undefined, shell.talk.program));
  if (found.length > checkpoints.length) shell.notify(moreText("checkpoint", checkpoints.length));
  return "done";
}

function noCheckpoints(run: string, filtered: boolean, program: string): string {
  return filtered
    ? `No checkpoint of ${run} is like that. All of them:\n  ${program} list ${run}`
    : `${run} has no checkpoints yet. Save one with:\n  ${program} checkpoint --run ${run}`;
}

function triggerOf(text: string | undefined): Trigger | undefined {
  return TRIGGERS.find((trigger) => trigger === text);
}

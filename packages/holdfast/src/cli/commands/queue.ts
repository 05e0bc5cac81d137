/** The `queue` command: the submitted runs in the order in which workers execute them. */
import { priorityText } from "@holdfast/core/lease";
import type { RunWithStatus } from "@holdfast/core/run-statuses";
import { isHeld } from "@holdfast/core/status";
import { HoldfastError } from "@holdfast/platform/error";
import { withoutPassword } from "@holdfast/postgres/store-url";
import { readSubmission, withdrawSubmission } from "../../worker/fleet-runs.ts";
import { dispatchPlace, findDispatch, isDispatchAbsent, openDispatch } from "../../worker/open-dispatch.ts";
import { entryKey } from "../../worker/plan-fleet.ts";
import { stoppedKey } from "../../worker/plan-work.ts";
import { type QueueEntry, readEntries } from "../../worker/read-queue.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { findRun } from "../operands.ts";
import type { Page } from "../output/page.ts";
import { dueText } from "../output/queue-text.ts";
import { renderTable } from "../output/table.ts";
import { reportDatabase } from "../report-remotes.ts";

export const spec = {
  name: "queue",
  summary: "list the submitted runs in their order",
  details: [
    "Shows the runs that `holdfast submit` has queued, of all repositories that share the queue: the highest priority first, then the oldest. DUE is when a worker may execute it. An entry that waits for you continues by itself when you have answered (`holdfast approve`). WHY names what a waiting run lacks, such as a worker with its labels, and how many attempts have failed in a row: the next one is made when DUE says.",
    "--cancel takes a run of this repository out of the queue. A worker that executes it stops and saves it. `holdfast submit RUN` puts it back.",
  ],
  operands: [],
  consent: "store",
  flags: {
    cancel: { type: "text", value: "RUN", about: "take this run out of the queue", completes: "run" },
  },
  examples: [
    { line: "holdfast queue", about: "what is executed, and what comes next" },
    { line: "holdfast queue --json", about: "the same for a program, with all labels" },
    { line: "holdfast queue --cancel issue-42", about: "take a run out; its work is saved" },
  ],
  json: '{"dispatch": place of the queue, "entries": [{"run", "store": id of its store, "repository", "queue", "priority", "needs": [labels], "state": "waiting" | "active", "wakeAt": milliseconds, 0 at once or null for a signal, "worker": id or null, "why": text or null, "failures": number of attempts that failed in a row, or null for a run of another store}]}; with --cancel {"cancelled": run, "known": false if it was not in the queue}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const cancelled = input.text("cancel");
  if (cancelled !== undefined) return await cancel(shell, cancelled);
  const holdfast = await shell.openIfThere();
  const { settings } = await shell.config();
  const place = holdfast === undefined ? settings.fleet.dispatch : dispatchPlace(settings, holdfast.store.location);
  const { limits } = settings.fleet;
  const dispatch =
    place === null ? null : await findDispatch(place, { limits, env: shell.env, onWait: reportDatabase(shell) });
  const runs = async () => (await holdfast?.unfinished()) ?? [];
  if (dispatch === null) return print(shell, place, { shown: [], missing: countMissing([], await runs()), now: 0 });
  try {
    const now = async () => (await holdfast?.store.now()) ?? Date.now();
    const store = holdfast?.store ?? null;
    const shown = await readEntries(dispatch, { store, limits, runs, now });
    const known = shown.filter((entry) => entry.store === store?.id).map(({ run }) => run);
    return print(shell, place, { shown, missing: countMissing(known, await runs()), now: await now() });
  } finally {
    await dispatch.close();
  }
}

/** Submitted runs that workers can execute and that have no entry: the queue was lost, or the store comes from a backup. */
export function countMissing(
  known: readonly string[],
  runs: readonly (Pick<RunWithStatus, "status" | "submitted"> & { readonly run: { readonly id: string } })[],
): number {
  const entered = new Set(known);
  return runs.filter(
    ({ run, status, submitted }) =>
      submitted && (status.kind === "crashed" || status.kind === "queued") && !isHeld(status) && !entered.has(run.id),
  ).length;
}

/** `now`: by the clock of the store. That of this machine may be wrong. */
function print(
  shell: Shell,
  place: string | null,
  { shown, missing, now }: { readonly shown: readonly QueueEntry[]; readonly missing: number; readonly now: number },
): Exit {
  shell.print({
    json: () => ({ dispatch: place === null ? null : withoutPassword(place), entries: shown }),
    text: (page) => (shown.length === 0 ? "" : entriesText(shown, now, page)),
  });
  if (missing > 0)
    shell.notify(
      `${missing === 1 ? "1 submitted run is" : `${missing} submitted runs are`} not in the queue. A worker enters them within 15 seconds: ${shell.talk.program} worker --join`,
    );
  else if (shown.length === 0) shell.notify(`The queue is empty. ${shell.talk.program} submit ISSUE adds a run.`);
  return "done";
}

export function entriesText(entries: readonly QueueEntry[], now: number, page: Page): string {
  const columns = [
    { title: "RUN", shrinkTo: 12, last: true },
    { title: "REPOSITORY", shrinkTo: 8, cut: "middle", expendable: 4 },
    { title: "QUEUE", shrinkTo: 6, expendable: 3 },
    { title: "PRIORITY", optional: true, expendable: 2 },
    { title: "STATE" },
    { title: "DUE", optional: true },
    { title: "WORKER", shrinkTo: 8, optional: true, expendable: 1 },
    { title: "WHY", optional: true, wrap: true, shrinkTo: 16 },
  ] as const;
  const rows = entries.map((entry) => [
    { text: entry.run, style: "bold" } as const,
    { text: entry.repository },
    { text: entry.queue },
    { text: entry.priority === 0 ? "" : priorityText(entry.priority) },
    { text: entry.state, style: entry.state === "active" ? "cyan" : "yellow" } as const,
    { text: dueText(entry, now) },
    { text: entry.worker ?? "" },
    { text: entry.why ?? "", style: "dim" } as const,
  ]);
  return renderTable({ columns, rows }, page);
}

/** First in the store: otherwise a worker would enter the run again. */
async function cancel(shell: Shell, typed: string): Promise<Exit> {
  const holdfast = await shell.open({ create: false, writes: true });
  const { id } = await findRun(holdfast, typed);
  const holder = await (await holdfast.run(id)).holder();
  // Otherwise a worker beside the queue continues the run if its process has died, or dies before it is ended.
  if (holder !== undefined && (await readSubmission(holdfast.store, id)) !== null)
    await holdfast.store.setMeta(stoppedKey(id), String(holder.lease.epoch));
  const withdrawn = await withdrawSubmission(holdfast.store, id);
  const { settings } = await shell.config();
  const place = dispatchPlace(settings, holdfast.store.location);
  const known = withdrawn || !isDispatchAbsent(place);
  if (!known)
    throw new HoldfastError({
      code: "NOTHING_TO_RESUME",
      message: `${id} is not in the queue`,
      hint: "See `holdfast queue`.",
    });
  const dispatch = await openDispatch(place, {
    limits: settings.fleet.limits,
    env: shell.env,
    onWait: reportDatabase(shell),
  });
  const removed = await dispatch.cancel(entryKey(holdfast.store.id, id)).finally(() => dispatch.close());
  shell.print({
    json: () => ({ cancelled: id, known: withdrawn || removed }),
    text: () => (withdrawn || removed ? `Taken out of the queue: ${id}\n` : `${id} was not in the queue.\n`),
  });
  if (withdrawn || removed) shell.notify(`Back into it: ${shell.talk.program} submit ${id}`);
  return "done";
}

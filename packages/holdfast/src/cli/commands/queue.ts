/** The `queue` command: the submitted runs in the order in which workers execute them. */
import type { Entry } from "@holdfast/core/dispatch";
import { priorityText } from "@holdfast/core/lease";
import type { RunWithStatus } from "@holdfast/core/run-statuses";
import { HoldfastError } from "@holdfast/platform/error";
import { withoutPassword } from "@holdfast/postgres/store-url";
import type { Holdfast } from "../../holdfast.ts";
import { readAttempt, withdrawSubmission } from "../../worker/fleet-runs.ts";
import { dispatchPlace, findDispatch, isDispatchAbsent, openDispatch } from "../../worker/open-dispatch.ts";
import { entryKey, failuresOf, parseEntryKey, whyWaiting } from "../../worker/plan-fleet.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { findRun } from "../operands.ts";
import type { Page } from "../output/page.ts";
import { relativeTime } from "../output/quantities.ts";
import { renderTable } from "../output/table.ts";

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
  const dispatch = place === null ? null : await findDispatch(place, { limits, env: shell.env });
  if (dispatch === null) return print(shell, place, [], 0);
  try {
    const [entries, workers] = await Promise.all([dispatch.list(), dispatch.workers()]);
    const now = holdfast === undefined ? Date.now() : await holdfast.store.now();
    const runs = new Map((await holdfast?.unfinished())?.map((found) => [found.run.id, found]));
    const shown = await Promise.all(
      entries.map(async (entry): Promise<ShownEntry> => {
        const { store, run } = parseEntryKey(entry.run);
        const found = holdfast === undefined || store !== holdfast.store.id ? undefined : runs.get(run);
        const [status, failures] =
          holdfast === undefined || found === undefined
            ? [null, null]
            : [found.status, await readFailures(holdfast, found, entry)];
        const why = whyWaiting(entry, { entries, workers, limits, now, status, failures });
        return { ...entry, run, store, why, failures };
      }),
    );
    return print(shell, place, shown, now);
  } finally {
    await dispatch.close();
  }
}

async function readFailures({ store }: Holdfast, { run, status }: RunWithStatus, entry: Entry): Promise<number> {
  return failuresOf({ status, entries: run.entries, attempt: await readAttempt(store, run.id) }, entry);
}

/** `now`: by the clock of the store. That of this machine may be wrong. */
function print(shell: Shell, place: string | null, shown: readonly ShownEntry[], now: number): Exit {
  shell.print({
    json: () => ({ dispatch: place === null ? null : withoutPassword(place), entries: shown }),
    text: (page) => (shown.length === 0 ? "" : entriesText(shown, now, page)),
  });
  if (shown.length === 0) shell.notify(`The queue is empty. ${shell.talk.program} submit ISSUE adds a run.`);
  return "done";
}

interface ShownEntry extends Entry {
  /** The id of the store that has the run. */
  readonly store: string;
  readonly why: string | null;
  /** null: the store of the run is not read here. */
  readonly failures: number | null;
}

function entriesText(entries: readonly ShownEntry[], now: number, page: Page): string {
  const columns = [
    { title: "RUN", shrinkTo: 12, last: true },
    { title: "REPOSITORY", shrinkTo: 8, cut: "middle", expendable: 1 },
    { title: "QUEUE", shrinkTo: 6, expendable: 2 },
    { title: "PRIORITY", optional: true, expendable: 3 },
    { title: "STATE" },
    { title: "DUE", optional: true },
    { title: "WORKER", shrinkTo: 8, optional: true, expendable: 4 },
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

function dueText({ state, wakeAt }: Pick<Entry, "state" | "wakeAt">, now: number): string {
  if (state === "active" || wakeAt === null) return "";
  if (wakeAt <= now) return "now";
  // The first repetition of a failed attempt is due after 30 seconds.
  return wakeAt - now < 60_000 ? "within a minute" : relativeTime(new Date(wakeAt).toISOString(), now);
}

/** First in the store: otherwise a worker would enter the run again. */
async function cancel(shell: Shell, typed: string): Promise<Exit> {
  const holdfast = await shell.open({ create: false, writes: true });
  const { id } = await findRun(holdfast, typed);
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
  const dispatch = await openDispatch(place, { limits: settings.fleet.limits, env: shell.env });
  const removed = await dispatch.cancel(entryKey(holdfast.store.id, id)).finally(() => dispatch.close());
  shell.print({
    json: () => ({ cancelled: id, known: withdrawn || removed }),
    text: () => (withdrawn || removed ? `Taken out of the queue: ${id}\n` : `${id} was not in the queue.\n`),
  });
  if (withdrawn || removed) shell.notify(`Back into it: ${shell.talk.program} submit ${id}`);
  return "done";
}

/** The `workers` command: the workers that have joined the queue. */
import type { WorkerEntry } from "@holdfast/core/dispatch";
import { withoutPassword } from "@holdfast/postgres/store-url";
import { dispatchPlace, findDispatch } from "../../worker/open-dispatch.ts";
import type { CommandSpec, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import type { Page } from "../output/page.ts";
import { timeText } from "../output/quantities.ts";
import { renderTable } from "../output/table.ts";
import { reportDatabase } from "../report-remotes.ts";

export const spec = {
  name: "workers",
  summary: "list the workers of the queue",
  details: [
    "Shows the workers that have joined the queue with `holdfast worker --join`, on all machines: their slots and how many are in use, and the age of their last heartbeat. A draining worker takes no new run. A worker whose heartbeat is older than 30 seconds is dead: others continue its runs.",
    "The labels say which runs a worker can execute: its agents that are ready, the workflows that it knows, the stores that it has a clone for, its host, and those of --label.",
  ],
  operands: [],
  consent: "store",
  flags: {},
  examples: [
    { line: "holdfast workers", about: "who executes submitted runs" },
    { line: "holdfast workers --json", about: "the same for a program, with all labels" },
    { line: "holdfast workers --store postgres://db.example/team", about: "those of another store" },
  ],
  json: '{"dispatch": place of the queue, "workers": [{"id", "host", "labels": [...], "slots", "busy", "version", "draining", "heartbeatAgeMs"}]}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell): Promise<Exit> {
  const holdfast = await shell.openIfThere();
  const { settings } = await shell.config();
  const place = holdfast === undefined ? settings.fleet.dispatch : dispatchPlace(settings, holdfast.store.location);
  const workers = place === null ? [] : await readWorkers(shell, place);
  shell.print({
    json: () => ({ dispatch: place === null ? null : withoutPassword(place), workers }),
    text: (page) => (workers.length === 0 ? "" : workersText(workers, page)),
  });
  if (workers.length === 0) shell.notify(`No worker has joined. Start one: ${shell.talk.program} worker --join`);
  return "done";
}

async function readWorkers(shell: Shell, place: string): Promise<readonly WorkerEntry[]> {
  const { settings } = await shell.config();
  const dispatch = await findDispatch(place, {
    limits: settings.fleet.limits,
    env: shell.env,
    onWait: reportDatabase(shell),
  });
  if (dispatch === null) return [];
  try {
    return await dispatch.workers();
  } finally {
    await dispatch.close();
  }
}

/** As a dispatch judges it by default. */
const DEAD_MS = 30_000;

export function workerState({ draining, heartbeatAgeMs }: Pick<WorkerEntry, "draining" | "heartbeatAgeMs">): {
  readonly text: string;
  readonly style: "red" | "yellow";
} {
  if (heartbeatAgeMs > DEAD_MS) return { text: "dead", style: "red" };
  return { text: draining ? "draining" : "", style: "yellow" };
}

function workersText(workers: readonly WorkerEntry[], page: Page): string {
  const columns = [
    { title: "WORKER", shrinkTo: 12, last: true },
    { title: "STATE", optional: true },
    { title: "BUSY" },
    { title: "HEARTBEAT" },
    { title: "VERSION", expendable: 1 },
    { title: "LABELS", wrap: true, shrinkTo: 20 },
  ] as const;
  const rows = workers.map(({ id, draining, busy, slots, heartbeatAgeMs, version, labels }) => [
    { text: id, style: "bold" } as const,
    workerState({ draining, heartbeatAgeMs }),
    { text: `${busy} of ${slots}` },
    { text: `${timeText(Math.max(0, heartbeatAgeMs))} ago` },
    { text: version },
    // The id of a store says nothing to a reader.
    { text: labels.filter((label) => !label.startsWith("store:")).join(" "), style: "dim" } as const,
  ]);
  return renderTable({ columns, rows }, page);
}

/** The `loops` command: shows running, queued and blocked loops. */
import { setTimeout as sleep } from "node:timers/promises";
import { priorityText } from "@holdfast/core/lease";
import type { RunWithStatus } from "@holdfast/core/run-statuses";
import { HoldfastError } from "@holdfast/platform/error";
import type { Holdfast } from "../../holdfast.ts";
import type { LoopOverview } from "../../run-status.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { canRedraw, createLiveRegion } from "../live-view.ts";
import { findRun } from "../operands.ts";
import type { Page } from "../output/page.ts";
import { relativeTime } from "../output/quantities.ts";
import { stageText, statusCell, workText } from "../output/run-text.ts";
import { renderTable } from "../output/table.ts";
import { readPriority } from "../parse-arguments.ts";

export const spec = {
  name: "loops",
  summary: "show the loops of this repository, and who is next",
  details: [
    "Each loop with its state, computed from its journal and from the process that holds it, as `status` shows it; with --all also those that have ended. BEAT is how long ago its process last gave a sign of life.",
    "No more than `loops.max` of them work at once (4). One more is refused, unless it waits with --wait, by priority and then by age, or goes over the limit with --force.",
    "With RUN and --priority its priority is changed, also while it works or waits.",
  ],
  operands: [{ name: "RUN", about: "a run id; only this one", required: false, completes: "run" }],
  consent: "reads",
  paths: false,
  flags: {
    all: { type: "boolean", short: "a", about: "also those that have ended" },
    priority: { type: "text", value: "P", about: "with RUN: low, normal, high, or a number from -100 to 100" },
    watch: { type: "boolean", short: "w", about: "go on showing them, until Ctrl+C" },
  },
  examples: [
    { line: "holdfast loops", about: "who works, who waits, who needs you" },
    { line: "holdfast loops ralph-fix-tests-1a2b3c4d --priority high", about: "let it be the next" },
    { line: "holdfast loops --all --json", about: "all of them, for a program" },
  ],
  reads: true,
  json: '{"at", "limit": N or null, "atWork": N, "loops": [{"run": {...}, "status": {"kind": ...}, "resumable", "priority"}]}; with --watch one line whenever something changed.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const typed = input.operand(0);
  const priority = readPriority(input.text("priority"));
  if (priority !== undefined && typed === undefined)
    throw new HoldfastError({
      code: "USAGE",
      message: "Whose priority?",
      hint: "Name the loop: `holdfast loops RUN --priority high`.",
    });
  const holdfast =
    priority === undefined ? await shell.openIfThere() : await shell.open({ create: false, writes: true });
  const only = typed === undefined || holdfast === undefined ? null : (await findRun(holdfast, typed)).id;
  if (priority !== undefined && only !== null) await holdfast?.work.setPriority(only, priority);
  const read = async (): Promise<LoopOverview> => await readLoops(holdfast, { all: input.on("all"), only });
  if (input.on("watch")) return await watch(shell, read);
  const loops = await read();
  shell.print({ json: () => loops, text: (page) => loopsText(loops, page) });
  if (loops.loops.length === 0)
    shell.say(`No loops${input.on("all") ? " yet" : " under way"}: ${shell.talk.program} run --workflow ralph --help`);
  return "done";
}

async function readLoops(
  holdfast: Holdfast | undefined,
  { all, only }: { readonly all: boolean; readonly only: string | null },
): Promise<LoopOverview> {
  if (holdfast === undefined) return { at: new Date().toISOString(), limit: null, atWork: 0, loops: [] };
  const found = await holdfast.loops({ ended: all || only !== null });
  return only === null ? found : { ...found, loops: found.loops.filter(({ run }) => run.id === only) };
}

async function watch(shell: Shell, read: () => Promise<LoopOverview>): Promise<Exit> {
  const live = canRedraw(shell)
    ? createLiveRegion({ write: (text) => void shell.write(text), columns: shell.columns, page: shell.page })
    : null;
  let before = "";
  try {
    for (;;) {
      const loops = await read();
      const page = { ...shell.page, now: Date.now(), width: shell.columns() - (live === null ? 0 : 1) };
      const text = shell.json ? `${JSON.stringify(loops)}\n` : loopsText(loops, page);
      // A change of times and heartbeats alone is not reported to programs.
      const content = JSON.stringify(loops, (key, value) =>
        key === "heartbeatAt" || key === "at" ? undefined : value,
      );
      if (live !== null) live.draw(text.trimEnd().split("\n"));
      else if (content !== before && !shell.write(text)) return "done";
      before = content;
      await sleep(LOOK_MS, undefined, { signal: shell.signal });
    }
  } finally {
    live?.close();
  }
}

const LOOK_MS = 250;

/** "" if there are no loops: the hint for that case goes to stderr. */
export function loopsText({ loops, limit, atWork }: LoopOverview, page: Page): string {
  if (loops.length === 0) return "";
  const columns = [
    // Shown whole while there is space, because users type it.
    { title: "LOOP", shrinkTo: 48, last: true, cut: "middle" },
    { title: "STATUS" },
    { title: "STAGE", shrinkTo: 8, optional: true, expendable: 1 },
    { title: "PRIORITY", optional: true, expendable: 2 },
    { title: "BEAT", optional: true },
    { title: "WORK", shrinkTo: 10, optional: true, expendable: 3 },
  ] as const;
  const rows = loops.map((one) => [
    { text: one.run.id, style: "bold" } as const,
    statusCell(one.status),
    { text: one.run.latest === null ? "" : stageText(one.run.latest) },
    { text: one.priority === 0 ? "" : priorityText(one.priority) },
    { text: beatText(one, page), style: "dim" } as const,
    { text: workText(one.run.work) },
  ]);
  const places = limit === null ? "" : ` of ${limit} places`;
  return `${renderTable({ columns, rows }, page)}At work: ${atWork}${places}.\n`;
}

/** The last heartbeat; "" if no process holds the loop. */
function beatText({ status }: RunWithStatus, page: Page): string {
  return "holder" in status ? relativeTime(status.holder.heartbeatAt, page.now) : "";
}

import type { Holdfast } from "../../../app.ts";
import type { JournalEntry } from "../../../core/journal/journal.ts";
import type { Input, Shell } from "../../command.ts";
import type { Exit } from "../../../core/exit.ts";
import { countText } from "../../output/count-text.ts";
import { parseCount, parseLimit } from "../../parse-count.ts";
import { refuseSequence } from "../../refuse-sequence.ts";
import { entriesText, entryLine, followHeader } from "./view.ts";
import type { logSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof logSpec)["flags"]>): Promise<Exit> {
  const after = input.text("after");
  const limit = parseLimit(input.text("limit"), 50);
  const given = after === undefined ? undefined : parseCount("after", after);
  refuseSequence(input.operand(0), "log");
  const holdfast = await shell.open({ create: false });
  const summary = await holdfast.resolveRun(input.operand(0));
  const start = given ?? (limit === undefined ? 0 : Math.max(0, summary.entries - limit));
  const entries = await readEntries(holdfast, { run: summary.id, after: start, limit });
  if (input.on("follow")) return follow(shell, holdfast, { run: summary.id, entries, after: start });
  shell.print({
    json: () => ({ run: summary.id, entries }),
    text: (page) => (entries.length === 0 ? "" : entriesText(entries, page)),
  });
  if (given === undefined && start > 0)
    shell.say(
      `${countText(start, "earlier entry", "earlier entries")}: ${shell.talk.program} log ${summary.id} --after 0 --limit all`,
    );
  if (entries.length === 0) shell.say(`Nothing in the journal of ${summary.id} after entry ${start}.`);
  return "done";
}

async function readEntries(
  holdfast: Holdfast,
  params: { readonly run: string; readonly after: number; readonly limit: number | undefined },
): Promise<readonly JournalEntry[]> {
  const handle = await holdfast.run(params.run);
  const entries: JournalEntry[] = [];
  const { after, limit } = params;
  for await (const entry of handle.log(limit === undefined ? { after } : { after, limit })) entries.push(entry);
  return entries;
}

/** The watch starts after the last entry shown, so nothing written in between is missed or shown twice. */
async function follow(
  shell: Shell,
  holdfast: Holdfast,
  params: { readonly run: string; readonly entries: readonly JournalEntry[]; readonly after: number },
): Promise<Exit> {
  const show = (entry: JournalEntry): boolean =>
    shell.write(shell.json ? `${JSON.stringify(entry)}\n` : entryLine(entry, shell.page));
  if (!shell.json) shell.write(followHeader(shell.page));
  for (const entry of params.entries) {
    if (!show(entry)) return "done";
  }
  shell.say(`Following ${params.run}; Ctrl+C ends.`);
  const after = params.entries.at(-1)?.entry ?? params.after;
  // Watching does not keep a process alive by itself; following does.
  const alive = setInterval(() => {}, 60_000);
  try {
    for await (const entry of holdfast.store.watch({ run: params.run, after, signal: shell.signal })) {
      if (!show(entry)) return "done";
    }
  } finally {
    clearInterval(alive);
  }
  return "done";
}

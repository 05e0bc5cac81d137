import type { Mirror, MirrorReport } from "../../../app.ts";
import { FORMAT_NAMES } from "../../../core/format-names.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Input, Shell } from "../../command.ts";
import { findRun } from "../../find-run.ts";
import { escapeText } from "../../output/escape-text.ts";
import { lossesText } from "../../output/losses-text.ts";
import { whichFormat } from "../export/which-format.ts";
import type { mirrorSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof mirrorSpec)["flags"]>): Promise<Exit> {
  const to = FORMAT_NAMES.find((name) => name === input.text("to"));
  if (to === undefined) throw whichFormat(FORMAT_NAMES);
  const holdfast = await shell.open({ create: false });
  const { id, entries, state } = await findRun(holdfast, input.operand(0) ?? "");
  const directory = input.text("directory");
  const mirror = await holdfast.foreign.mirror({ run: id, to, ...(directory === undefined ? {} : { directory }) });
  const tell = teller(shell, id, mirror);
  tell(await mirror.catchUp());
  if (input.on("once") || state.kind === "done" || state.kind === "fatal") return "done";
  // From the entry that was read first: what came in between is looked at again, and costs nothing.
  for await (const entry of holdfast.store.watch({ run: id, after: entries, signal: shell.signal })) {
    if (entry.kind === "checkpoint") tell(await mirror.catchUp());
    if (entry.kind !== "run.ended") continue;
    // An end is written in one transaction with its checkpoint, and stands before it.
    tell(await mirror.catchUp());
    break;
  }
  return "done";
}

function teller(shell: Shell, run: string, mirror: Pick<Mirror, "to" | "root">): (report: MirrorReport) => void {
  let told = false;
  return ({ sequence, paths, removed, losses }) => {
    if (shell.json)
      shell.write(
        `${JSON.stringify({ run, sequence, to: mirror.to, root: mirror.root, written: paths, removed, losses })}\n`,
      );
    else {
      const at = `${escapeText(run)}@${sequence}  `;
      for (const path of paths) shell.write(`${at}${escapeText(path)}\n`);
      for (const path of removed) shell.write(`${at}removed ${escapeText(path)}\n`);
      if (paths.length === 0 && removed.length === 0) shell.write(`${at}up to date\n`);
    }
    // They stay the same from checkpoint to checkpoint.
    if (!told) shell.say(lossesText(mirror.to, losses, shell.talk.width));
    told ||= losses.length > 0;
  };
}

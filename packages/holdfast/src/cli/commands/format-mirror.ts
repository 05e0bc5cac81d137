/** The `format mirror` command: keeps another tool's checkpoints up to date with a run. */
import { isEnded } from "@holdfast/core/run";
import { FORMAT_NAMES } from "@holdfast/formats/format-names";
import type { Mirror, MirrorReport } from "../../interop/mirror.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { findRun } from "../operands.ts";
import { escapeText } from "../output/text.ts";
import { missingFormatError, unsupportedFieldsText } from "./format-export.ts";

export const spec = {
  name: "mirror",
  summary: "keep another tool's checkpoints up to date with a run",
  details: [
    "Follows the run's journal: after each checkpoint the other layout is written, every file whole or not at all, until the run ends or Ctrl+C. It remembers nothing of its own, so one that was killed catches up when it is started again. The other tool can take over at any moment.",
    "With `mirror:` in holdfast.config.yaml `holdfast run` and `holdfast resume` do it by themselves; a run of the crunch workflow keeps crunch-yaml in the main worktree without being told, a run of the ralph workflow loop-json (`.aiwg`, see `aiwg:` in the config). For crunch-yaml `.claude/checkpoint-config.yaml` is respected: enabled, triggers, retention (only what the run itself wrote is ever removed), location, compress, max_size_mb.",
  ],
  operands: [{ name: "RUN", about: "the run to follow", required: true, completes: "run" }],
  consent: "saves",
  paths: false,
  flags: {
    to: { type: "text", value: "FORMAT", about: "the layout to keep", choices: FORMAT_NAMES },
    directory: {
      type: "text",
      value: "DIR",
      about:
        "root of the other tool's layout; default the run's worktree (of crunch runs and loops the main one), else where you stand",
      completes: "directory",
    },
    once: { type: "boolean", about: "bring it up to date and stop" },
  },
  examples: [
    { line: "holdfast mirror issue-42 --to impl-json", about: "beside a run under way" },
    {
      line: "holdfast mirror issue-42 --to crunch-yaml --directory . --once",
      about: "bring a crunch directory up to date",
    },
  ],
  json: 'One line for each writing: {"run", "sequence", "to", "root", "written": [paths], "removed": [paths], "losses": [...]}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const to = FORMAT_NAMES.find((name) => name === input.text("to"));
  if (to === undefined) throw missingFormatError(FORMAT_NAMES);
  const holdfast = await shell.open({ create: false });
  const { id, entries, state } = await findRun(holdfast, input.operand(0) ?? "");
  const directory = input.text("directory");
  const mirror = await holdfast.foreign.mirror({ run: id, to, ...(directory === undefined ? {} : { directory }) });
  const tell = teller(shell, id, mirror);
  tell(await mirror.catchUp());
  if (input.on("once") || isEnded(state)) return "done";
  // Starts at the entry that was read first. Entries in between are handled twice, which is harmless.
  for await (const entry of holdfast.store.watch({ run: id, after: entries, signal: shell.signal })) {
    if (entry.kind === "checkpoint") tell(await mirror.catchUp());
    if (entry.kind !== "run.ended") continue;
    // The end is in one transaction with its checkpoint and precedes it, so the mirror must catch up once more.
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
    // The losses are the same for every checkpoint, so they are reported once.
    if (!told) shell.say(unsupportedFieldsText(mirror.to, losses, shell.talk.width));
    told ||= losses.length > 0;
  };
}

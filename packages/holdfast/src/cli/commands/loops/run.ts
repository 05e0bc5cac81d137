import { setTimeout as sleep } from "node:timers/promises";
import type { Holdfast, Loops } from "../../../app.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Input, Shell } from "../../command.ts";
import { findRun } from "../../find-run.ts";
import { canRedraw } from "../../live/can-redraw.ts";
import { createLiveRegion } from "../../live/live-region.ts";
import { readPriority } from "../../read-place.ts";
import type { loopsSpec } from "./spec.ts";
import { loopsText } from "./view.ts";

export async function run(shell: Shell, input: Input<(typeof loopsSpec)["flags"]>): Promise<Exit> {
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
  const read = async (): Promise<Loops> => await readLoops(holdfast, { all: input.on("all"), only });
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
): Promise<Loops> {
  if (holdfast === undefined) return { at: new Date().toISOString(), limit: null, atWork: 0, loops: [] };
  const found = await holdfast.loops({ ended: all || only !== null });
  return only === null ? found : { ...found, loops: found.loops.filter(({ run }) => run.id === only) };
}

async function watch(shell: Shell, read: () => Promise<Loops>): Promise<Exit> {
  const live = canRedraw(shell)
    ? createLiveRegion({ write: (text) => void shell.write(text), columns: shell.columns, page: shell.page })
    : null;
  let before = "";
  try {
    for (;;) {
      const loops = await read();
      const page = { ...shell.page, now: Date.now(), width: shell.columns() - (live === null ? 0 : 1) };
      const text = shell.json ? `${JSON.stringify(loops)}\n` : loopsText(loops, page);
      // Time and heartbeats are no news to a program.
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

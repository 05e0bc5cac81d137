import { join } from "node:path";
import { openHoldfast } from "../../../src/open.ts";
import { DEFAULT_LAYOUT } from "@holdfast/workflows/plugin";
import { LOOP, beginLoop, save } from "../../ralph-layout/loop-run.ts";
import { printLine } from "./printed.ts";

/**
 * Usage: loop-writer <root> begin | mirror
 * begin: a loop with seven iterations is in the store, and of the first four in <root>/.aiwg. It went back to the beginning of its seventh, and
 * has a checkpoint that was asked for. mirror: the layout is brought up to date, then cleaned up.
 */
const [, , root = "", plan = ""] = process.argv;

const SEED = { ...DEFAULT_LAYOUT, layout: "seed" } as const;
const holdfast = await openHoldfast({ cwd: root, store: join(root, "store"), loopLayout: SEED });
const mirror = async () => await (await holdfast.formats.mirror({ run: LOOP, to: "loop-json" })).catchUp();
if (plan === "begin") {
  await beginLoop(holdfast);
  for (const iteration of [1, 2, 3, 4]) await save(holdfast, { iteration });
  await mirror();
  await save(holdfast, { iteration: 5 });
  await save(holdfast, { iteration: 6, trigger: "manual" });
  for (const iteration of [6, 7]) await save(holdfast, { iteration });
  await save(holdfast, { iteration: 7, trigger: "restore" });
} else {
  await mirror();
  printLine({ kind: "note", text: "mirrored" });
  await holdfast.formats.applyLayoutCleanup(await holdfast.formats.planLayoutCleanup());
  printLine({ kind: "note", text: "cleaned up" });
}
await holdfast.close();

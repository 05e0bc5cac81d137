import { join } from "node:path";
import { openHoldfast } from "../../../src/open.ts";
import { printLine } from "./printed.ts";

/**
 * Usage: external-writer <root> import | mirror
 * import: the checkpoints in <root>/theirs become a run. mirror: that run is mirrored to <root>/crunch and to
 * <root>/loops.
 */
const [, , root = "", plan = ""] = process.argv;

const holdfast = await openHoldfast({ cwd: root, store: join(root, "store") });
if (plan === "import") {
  const [imported] = await holdfast.formats.planImport({ paths: ["theirs"] });
  if (imported === undefined) throw new Error("nothing would be imported");
  await holdfast.formats.applyImport(imported);
  printLine({ kind: "note", text: "imported" });
} else {
  const [run] = await holdfast.store.listRuns();
  if (run === undefined) throw new Error("there is no run");
  for (const [to, directory] of [
    ["crunch-yaml", "crunch"],
    ["loop-json", "loops"],
  ] as const) {
    const mirror = await holdfast.formats.mirror({ run: run.id, to, directory });
    await mirror.catchUp();
    printLine({ kind: "note", text: to });
  }
}
await holdfast.close();

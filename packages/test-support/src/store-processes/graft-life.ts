import { openHoldfast } from "../../../holdfast/src/open.ts";

/** A process of its own that takes `src` from the run `theirs` into `ours`, as far as it lives. */
const [repository = ""] = process.argv.slice(2);
await using holdfast = await openHoldfast({ cwd: repository });
await using ours = await holdfast.run("ours");
const source = await (await holdfast.run("theirs")).latest();
if (source === undefined) throw new Error("nothing was saved");
await ours.applyGraft(await ours.planGraft({ source, paths: ["src"] }));

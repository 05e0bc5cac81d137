// A child process that cherry-picks `src` from the run `theirs` into `ours`, until it is killed.

import { openHoldfast } from "../../../holdfast/src/open.ts";

const [repository = ""] = process.argv.slice(2);
await using holdfast = await openHoldfast({ cwd: repository });
await using ours = await holdfast.run("ours");
const source = await (await holdfast.run("theirs")).latest();
if (source === undefined) throw new Error("nothing was saved");
await ours.applyCherryPick(await ours.planCherryPick({ source, paths: ["src"] }));

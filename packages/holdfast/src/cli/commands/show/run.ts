import type { Holdfast } from "../../../app.ts";
import type { Checkpoint } from "../../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Input, Shell } from "../../command.ts";
import type { Exit } from "../../../core/exit.ts";
import { spentKnown } from "../../output/spent-text.ts";
import { checkpointText } from "./checkpoint-view.ts";
import { nextText, runText } from "./run-view.ts";
import { showGraph } from "./show-graph.ts";
import type { showSpec } from "./spec.ts";

export async function run(shell: Shell, input: Input<(typeof showSpec)["flags"]>): Promise<Exit> {
  const holdfast = await shell.open({ create: false });
  const address = input.operand(0);
  if (input.on("graph")) return await showGraph(shell, holdfast, address);
  if (address?.includes("@") === true || input.on("values")) {
    const checkpoint = await readCheckpoint(holdfast, address);
    return input.on("values") ? showValues(shell, checkpoint) : showCheckpoint(shell, checkpoint);
  }
  return showRun(shell, holdfast, address);
}

async function showRun(shell: Shell, holdfast: Holdfast, address: string | undefined): Promise<Exit> {
  const summary = await holdfast.resolveRun(address);
  const handle = await holdfast.run(summary.id);
  const [holder, checkpoints, workspace, tombstones] = await Promise.all([
    handle.holder(),
    handle.list({ limit: 10 }),
    handle.workspace(),
    handle.tombstones(),
  ]);
  const shown = {
    run: summary,
    lease: holder?.lease ?? null,
    holder: holder?.alive ?? null,
    worktree: workspace?.root ?? null,
    checkpoints,
    dropped: tombstones.length,
  };
  shell.print({ json: () => shown, text: (page) => runText(shown, page) });
  shell.say(nextText(shown, shell.talk));
  return "done";
}

async function readCheckpoint(holdfast: Holdfast, address: string | undefined): Promise<Checkpoint> {
  if (address?.includes("@") === true) {
    const found = await holdfast.resolve(address);
    return (await holdfast.run(found.run)).get(found.sequence);
  }
  const summary = await holdfast.resolveRun(address);
  const latest = await (await holdfast.run(summary.id)).latest();
  if (latest !== undefined) return latest;
  throw new HoldfastError({
    code: "CHECKPOINT_NOT_FOUND",
    message: `Run ${summary.id} has no checkpoints yet`,
    hint: `Save one with \`holdfast checkpoint --run ${summary.id}\`.`,
  });
}

function showCheckpoint(shell: Shell, checkpoint: Checkpoint): Exit {
  shell.print({
    json: () => ({ checkpoint: checkpointJson(checkpoint) }),
    text: (page) => checkpointText(checkpoint, page),
  });
  return "done";
}

function checkpointJson(checkpoint: Checkpoint) {
  const { planes } = checkpoint;
  const { position } = planes;
  const budget = { ...position.budget, spent: spentKnown(position.budget.spent) };
  return { ...checkpoint, planes: { ...planes, position: { ...position, budget } } };
}

/** JSON in either case: this is data for another program. */
function showValues(shell: Shell, checkpoint: Checkpoint): Exit {
  const { values } = checkpoint.planes.context;
  const text = `${JSON.stringify(values, null, 2)}\n`;
  shell.print({ json: () => values, text: () => text });
  return "done";
}

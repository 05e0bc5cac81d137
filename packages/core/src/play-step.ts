// Replays one recorded step of a stage.

import type { NewEntry } from "./journal.ts";
import type { Json } from "./json.ts";
import { type Player, playedFailure } from "./player.ts";
import type { RecordedStep } from "./recording.ts";
import type { StageExecution } from "./stage-execution.ts";
import { rebaseRunning } from "./state.ts";

/** Replays a recorded step: its result, its cost, the files that it left, and its checkpoint if it had one. Nothing is executed. */
export async function playStep(stay: StageExecution, name: string): Promise<Json> {
  const { writer } = stay;
  const { player } = writer.parts;
  if (player === undefined) throw new TypeError("nothing is replayed here");
  const step = await player.next(writer, name);
  try {
    return await play(stay, player, step);
  } finally {
    player.played(step);
  }
}

async function play(stay: StageExecution, player: Player, step: RecordedStep): Promise<Json> {
  const { writer } = stay;
  const { step: name, came } = step;
  const end: readonly NewEntry[] = [
    ...player
      .spentOn(step)
      .map((spent): NewEntry => ({ kind: "step.lost", body: { visit: writer.visit, step: name, spent } })),
    came.kind === "finished"
      ? stay.finished(name, { result: came.result, spent: null })
      : stay.failed(name, { reason: came.reason, spent: null }),
  ];
  if (step.checkpoint === null) {
    await writer.append(...end);
  } else {
    const { trigger, name: title } = await player.titleOf(step.checkpoint);
    const named = title === null ? {} : { name: title };
    await writer.save({
      trigger,
      ...named,
      prepare: () => end,
      change: (planes, { sequence }) => rebaseRunning(planes, sequence),
    });
  }
  if (came.kind === "finished") return came.result;
  if (came.kind === "aborted") return writer.halt.abort(came.reason);
  stay.unclaim(name);
  throw playedFailure(came);
}

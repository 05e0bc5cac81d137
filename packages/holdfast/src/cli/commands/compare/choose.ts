import type { ComparedSide, Comparison, Holdfast } from "../../../app.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Shell } from "../../command.ts";

/** What every checkpoint that was chosen is tagged with. */
const CHOSEN = "chosen";

export interface Choice {
  readonly id: string;
  readonly tag: string;
  /** Checkpoints of the others that had been chosen before. */
  readonly untagged: readonly string[];
}

/** In one write: whoever is killed has chosen or has not, and there is never more than one winner among them. */
export async function choose(
  shell: Shell,
  holdfast: Holdfast,
  params: { readonly compared: Comparison; readonly chosen: string },
): Promise<Choice> {
  const { runs } = params.compared;
  const winner = findWinner(runs, params.chosen);
  const { id, run, sequence } = winner;
  if (sequence === null) {
    throw new HoldfastError({
      code: "NOTHING_TO_RESUME",
      message: `Run ${run} has no checkpoint that could be kept`,
      hint: `Save one with \`holdfast checkpoint --run ${run}\`.`,
    });
  }
  const others = [...new Set(runs.map((one) => one.run))].filter((one) => one !== run);
  const work = async (): Promise<Choice> => {
    const untagged: string[] = [];
    for (const other of others) {
      const handle = await holdfast.run(other);
      for await (const { id: before, tags } of handle.checkpoints()) if (tags.includes(CHOSEN)) untagged.push(before);
    }
    await (await holdfast.run(run)).tag(sequence, CHOSEN, { move: true, from: others });
    return { id, tag: CHOSEN, untagged };
  };
  return await shell.finish(work(), { done: () => `${id} was chosen` });
}

/** By the run, where only one side is of it; by the checkpoint in any case. */
function findWinner(runs: readonly ComparedSide[], chosen: string): ComparedSide {
  const [only, second] = runs.filter(({ id, run }) => id === chosen || run === chosen);
  if (only !== undefined && (second === undefined || second.id === only.id)) return only;
  const ids = [...new Set(runs.map(({ id }) => id))].join(", ");
  throw new HoldfastError({
    code: "USAGE",
    message: only === undefined ? `${chosen} is none of the compared` : `${chosen} could mean several of the compared`,
    hint: `Choose one of ${ids}.`,
  });
}

import type { Checkpoint } from "../../core/checkpoint.ts";
import type { Recording } from "../../core/replay/recording.ts";

/**
 * Checkpoints at which a run goes on in a visit that no transition led to: somebody restored an older one, took an ended run up again, or raised the limit that
 * had ended it. No workflow can come there by itself.
 */
export async function findJumps(
  recording: Recording,
  load: (sequence: number) => Promise<Pick<Checkpoint, "planes">>,
): Promise<ReadonlySet<number>> {
  const jumps = new Set<number>();
  const entered = [...recording.entered];
  let visit = 0;
  for (const { sequence, entry, isOwn, isAnew } of recording.checkpoints) {
    while (entered[0] !== undefined && entered[0].entry < entry) visit = entered.shift()?.visit ?? visit;
    if (isOwn) continue;
    const { number } = (await load(sequence)).planes.position.visit;
    if (isAnew || number !== visit) jumps.add(sequence);
    visit = number;
  }
  return jumps;
}

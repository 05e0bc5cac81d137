import type { Checkpoint } from "../../core/checkpoint.ts";
import type { Recording } from "../../core/replay/recording.ts";

/**
 * Checkpoints at which a run goes on in a visit that no transition led to: somebody restored an older one, took an ended run up again, or raised its limit. No workflow can come
 * there by itself.
 */
export async function findJumps(
  recording: Recording,
  load: (sequence: number) => Promise<Pick<Checkpoint, "planes">>,
): Promise<ReadonlySet<number>> {
  const jumps = new Set<number>();
  const entered = recording.entered.filter(({ reopens }) => !reopens);
  let visit = 0;
  for (const { sequence, entry, isOwn } of recording.checkpoints) {
    while (entered[0] !== undefined && entered[0].entry < entry) visit = entered.shift()?.visit ?? visit;
    if (isOwn) continue;
    const { number } = (await load(sequence)).planes.position.visit;
    if (number !== visit) jumps.add(sequence);
    visit = number;
  }
  return jumps;
}

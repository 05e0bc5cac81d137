import { canonicalJson, capture } from "../../core/values/index.ts";
import type { Checkpoint } from "../../core/checkpoint/checkpoint.ts";
import type { Recording } from "../../core/replay/recording.ts";

/**
 * Checkpoints at which a run goes on in a visit that no transition led to (somebody restored an older one, or took an ended run up again), or with other
 * options than before. No workflow can come there by itself.
 */
export async function findJumps(
  recording: Recording,
  load: (sequence: number) => Promise<Pick<Checkpoint, "planes">>,
): Promise<ReadonlySet<number>> {
  const jumps = new Set<number>();
  const entered = [...recording.entered];
  let visit = 0;
  let config: string | null = null;
  for (const { sequence, entry, isOwn, isReopening } of recording.checkpoints) {
    while (entered[0] !== undefined && entered[0].entry < entry) visit = entered.shift()?.visit ?? visit;
    if (isOwn && config !== null) continue;
    const { planes } = await load(sequence);
    const { number } = planes.position.visit;
    const now = canonicalJson(capture(planes.config));
    if (isReopening || number !== visit || (config !== null && now !== config)) jumps.add(sequence);
    visit = number;
    config = now;
  }
  return jumps;
}

import type { Recording } from "./record.ts";
import { countedIn } from "./record.ts";
import { sample } from "./seed.ts";
import type { Bad, Swept, SweepParams } from "./sweep.ts";
import { fullRunProgress, judgeSafely } from "./sweep.ts";
import type { Fault } from "./traced.ts";
import { trace } from "./traced.ts";
import { writeWorld } from "./world.ts";

/**
 * SIGKILL to real processes at operation N. It shows that the states taken from a recording are the true ones, and it reaches
 * what a recording cannot: children that live on after their parent was killed.
 */
export async function sweepRealKills(
  params: SweepParams & { readonly command: readonly string[]; readonly withChildren: boolean },
): Promise<Swept> {
  const { recording } = params;
  const points = sample(params.chance, planKills(recording, params.withChildren), params.cases);
  const bad: Bad[] = [];
  const progress = fullRunProgress(points.length);
  for (const [at, fault] of points.entries()) {
    progress(at, bad);
    writeWorld(recording.root, recording.before);
    const killed = await trace({ command: params.command, root: recording.root, fault });
    const printed = killed.stdout.split("\n").filter((line) => line !== "");
    const problems = [...(await judgeSafely(params.judge, { root: recording.root, printed }))];
    // A fault that never came would make the whole sweep green. (Children run side by side: a later run may count fewer.)
    if (killed.code === 0 && countedIn(killed) >= fault.at) problems.push("the writer was not killed");
    if (problems.length > 0) bad.push({ where: `${JSON.stringify(fault)} of ${countedIn(recording)}`, problems });
  }
  return { cases: points.length, states: points.length, bad };
}

function planKills(recording: Recording, withChildren: boolean): readonly Fault[] {
  const faults: Fault[] = [];
  for (const operation of recording.operations) {
    const at = operation.number;
    if (at === 0) continue;
    // "after" one operation is "before" the next.
    faults.push({ at, do: "kill", phase: "before" });
    if (withChildren) faults.push({ at, do: "kill-leader", phase: "before" });
    if (operation.kind === "write") faults.push({ at, do: "tear" });
  }
  return faults;
}

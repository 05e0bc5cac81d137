import { countedIn, recordFaulty } from "./record.ts";
import type { Recording } from "./record.ts";
import { everyNth, isFullRun, sample } from "./seed.ts";
import type { Bad, Swept, SweepParams } from "./sweep.ts";
import { fullRunProgress, judgeSafely, sweepPower } from "./sweep.ts";
import type { Fault } from "./traced.ts";
import { writeWorld } from "./world.ts";

/** The numbers of the kernel, which are the same on all supported Linux machines. */
const ERRNO = { EIO: 5, EMFILE: 24, ENOSPC: 28, EROFS: 30 } as const;
export type ErrorName = keyof typeof ERRNO;

export interface FaultyRun {
  readonly error: ErrorName;
  readonly sticky: boolean;
  readonly code: number | null;
  readonly printed: readonly string[];
  readonly stderr: string;
}

/**
 * Operation N, or every one from N on, fails with an error of the kernel. `judgeRun` checks the writer's output and
 * exit, `judge` what is left. After a failed sync the disk is also cut off at sampled moments: later acknowledgements
 * must not depend on bytes that the kernel dropped.
 */
export async function sweepErrors(
  params: SweepParams & {
    /** Other operations are the user's own. */
    readonly isOurs: (path: string) => boolean;
    readonly command: readonly string[];
    readonly judgeRun: (run: FaultyRun) => readonly string[];
  },
): Promise<Swept> {
  const { recording, chance } = params;
  const planned = sample(chance, planErrors(recording, params.isOurs), params.cases);
  const points = isFullRun() ? everyNth(planned) : planned;
  const bad: Bad[] = [];
  let states = 0;
  const progress = fullRunProgress(points.length);
  for (const { fault, error } of points) {
    progress(states, bad);
    writeWorld(recording.root, recording.before);
    const faulty = await recordFaulty({ command: params.command, root: recording.root, fault });
    const printed = faulty.stdout.split("\n").filter((line) => line !== "");
    const problems = [
      ...params.judgeRun({ error, sticky: fault.sticky === true, code: faulty.code, printed, stderr: faulty.stderr }),
    ];
    problems.push(...(await judgeSafely(params.judge, { root: recording.root, printed })));
    states += 1;
    const failedSync = faulty.operations.some(
      (operation) => operation.kind === "failed" && operation.errno === ERRNO.EIO && operation.what.endsWith("sync"),
    );
    if (failedSync) {
      const cut = await sweepPower({
        recording: faulty,
        judge: params.judge,
        chance,
        model: "posix",
        cases: 4,
        statesPerCase: 2,
        // Each failed sync with each later power cut would be a square: a full run takes a sample of the cuts, too.
        all: false,
      });
      states += cut.states;
      problems.push(
        ...cut.bad.flatMap(({ where, problems: found }) => found.map((problem) => `power cut ${where}: ${problem}`)),
      );
    }
    if (problems.length > 0)
      bad.push({ where: `${error} at operation ${JSON.stringify(fault)} of ${countedIn(recording)}`, problems });
  }
  return { cases: points.length, states, bad };
}

function planErrors(
  recording: Recording,
  isOurs: (path: string) => boolean,
): readonly { readonly fault: Fault & { readonly do: "errno" }; readonly error: ErrorName }[] {
  return recording.operations.flatMap((operation) => {
    if (operation.number === 0 || operation.kind === "failed") return [];
    if ("path" in operation && !isOurs(operation.path)) return [];
    const errors: ErrorName[] = operation.kind === "fsync" || operation.kind === "sync" ? ["EIO"] : ["EIO", "ENOSPC"];
    if (operation.kind === "create") errors.push("EMFILE", "EROFS");
    return errors.flatMap((error) =>
      [false, true].map((sticky) => ({
        error,
        fault: { at: operation.number, do: "errno" as const, errno: ERRNO[error], sticky },
      })),
    );
  });
}

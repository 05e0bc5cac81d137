import { HoldfastError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import type { StageResult } from "../../core/position/workflow.ts";
import type { Workflow } from "../definition.ts";
import { reasonOf } from "../reason-of.ts";
import { runMark } from "../save/run-mark.ts";
import type { RunSession } from "../conduct/run-session.ts";
import { createStageContext } from "./stage-calls.ts";
import type { StageFunction } from "../stage-context.ts";
import { Stay } from "./stay.ts";

/** How long steps get to end after they were told to. What does not, cannot write any more. */
const GRACE_MS = 10_000;

/**
 * Runs a stage's function to its end, or until work must stop. Throws the cause then: what the stage may have concluded
 * is not looked at, because a call that was refused may be behind it; run again, it concludes the same.
 */
export async function runStage<S extends JsonObject>(
  writer: RunSession,
  params: {
    readonly workflow: Workflow<S>;
    readonly work: StageFunction<S>;
  },
): Promise<StageResult<S>> {
  const { halt } = writer;
  const stay = new Stay(writer);
  const context = createStageContext(stay, params.workflow);
  let result: StageResult<S> | undefined;
  const working = (async () => {
    try {
      result = await params.work(context);
    } catch (error) {
      // The others that it started are told to end.
      halt.stop(error instanceof Error ? error : new Error(String(error)));
    }
    await stay.idle();
  })();
  await Promise.race([working, halt.halted]);
  if (halt.cause !== undefined) {
    await endWork(writer, working);
    stay.close();
    throw halt.cause;
  }
  await working;
  stay.close();
  stay.checkAsked();
  if (result === undefined) throw new TypeError(`stage ${stay.stage} returned nothing`);
  return result;
}

/**
 * Steps are ended at once. What asks the world for something (an effect, a forge) gets the time to hear the answer: cut off, nobody would know
 * whether it happened. Whoever took the lease may run processes under the same mark: ours end by their signal alone then.
 */
async function endWork(writer: RunSession, working: Promise<void>): Promise<void> {
  const { parts, run, halt } = writer;
  const end = async (mark: string): Promise<void> => {
    if (isLeaseLost(halt.cause)) return;
    // What cannot be ended now is ended before the run is taken up again; what is there is saved all the same.
    await parts.commands.endMarked(mark).catch((error: unknown) => {
      writer.tell({ kind: "note", text: `Processes of the run may be left: ${reasonOf(error)}` });
    });
  };
  await end(`${runMark(parts, run.id)}/${writer.visit}`);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const grace = new Promise<"late">((resolve) => {
    timer = setTimeout(resolve, GRACE_MS, "late");
  });
  const ended = await Promise.race([working, grace]);
  clearTimeout(timer);
  if (ended === "late") await end(runMark(parts, run.id));
}

function isLeaseLost(cause: Error | undefined): boolean {
  return cause instanceof HoldfastError && cause.code === "LEASE_LOST";
}

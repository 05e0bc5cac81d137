import { exceeded } from "../../core/position/budget.ts";
import { HoldfastError } from "../../core/error.ts";
import type { NewEntry, StepFinished } from "../../core/journal/journal.ts";
import type { Budget } from "../../core/position/position.ts";
import { holdLease } from "../lease/hold-lease.ts";
import { parkedOn, unparked } from "./park.ts";
import { loadRun } from "./load-run.ts";
import { usedUp } from "./spending.ts";
import type { WorkParts } from "../work-parts.ts";
import { knownRun } from "../known-run.ts";

/**
 * A person's answer to the question that the run waits with; without a question, leave to go on. The answer is the step's
 * result, in the same commit. USAGE when it waits for no answer, or for another one.
 */
export async function answerDecision(params: {
  readonly parts: WorkParts;
  readonly run: string;
  readonly answer: string;
  /** Who says so, for the journal. */
  readonly by?: string;
}): Promise<void> {
  const { parts, run, answer } = params;
  const by = params.by === undefined ? {} : { by: params.by };
  await using lease = await holdLease(parts, run);
  const { state } = await knownRun(parts.store, run);
  if (state.kind !== "parked") {
    throw new HoldfastError({
      code: "USAGE",
      message: `Run ${run} waits for no answer: it is ${state.kind}`,
      hint: `See \`holdfast status ${run}\`.`,
    });
  }
  const { decision } = state;
  if (decision === undefined) {
    await parts.store.commit({ lease: lease.lease, entries: [unparked({ answer, ...by })] });
    return;
  }
  const { name, question, options } = decision;
  if (options.length > 0 && !options.includes(answer)) {
    throw new HoldfastError({
      code: "USAGE",
      message: `${JSON.stringify(answer)} does not answer "${question}"`,
      hint: `Answer one of ${options.join(", ")}.`,
      data: { options },
    });
  }
  const { position } = await loadRun(parts, run);
  const body: StepFinished = { visit: position.visit.number, step: name, result: answer, spent: null };
  const answered: NewEntry = { kind: "step.finished", body };
  await parts.store.commit({ lease: lease.lease, entries: [unparked({ decision: name, answer, ...by }), answered] });
}

/** New limits from now on; a run that waits for them goes on with the next resume. */
export async function raiseLimits(params: {
  readonly parts: WorkParts;
  readonly run: string;
  readonly limit: Partial<Budget["limit"]>;
}): Promise<Budget> {
  const { parts, run } = params;
  await using lease = await holdLease(parts, run);
  const { state } = await knownRun(parts.store, run);
  const { newest, top, position } = await loadRun(parts, run);
  const budget: Budget = { ...position.budget, limit: { ...position.budget.limit, ...params.limit } };
  const sequence = top + 1;
  const { files } = newest.planes;
  // Under a name of its own: the older checkpoint may be dropped, and its ref with it.
  const ref =
    files === null || parts.workspaces === null
      ? undefined
      : await parts.workspaces.pin({ run, sequence, commit: files.commit });
  const waits = state.kind === "parked" && state.on === "budget";
  const still = exceeded(budget);
  // The reason names the limits as they are now: whoever raised one of two must be told of the other.
  const entry =
    still.length === 0 ? unparked({}) : parkedOn({ on: "budget", reason: usedUp(budget, still), until: null });
  await parts.store.commit({
    lease: lease.lease,
    entries: waits ? [entry] : [],
    checkpoint: {
      sequence,
      trigger: "manual",
      name: "limits raised",
      planes: {
        ...newest.planes,
        position: { ...position, budget },
        files: files === null || ref === undefined ? files : { ...files, ref },
      },
    },
  });
  return budget;
}

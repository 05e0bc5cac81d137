import type { CheckpointBooks } from "../checkpoints.ts";
import { integer } from "../columns.ts";
import type { Effects } from "../effects.ts";
import type { Handle } from "../handle.ts";
import { asHoldfastError } from "../sqlite-errors.ts";
import { type RunProgress, verifyRun } from "./verify-run.ts";
import { storeProblem, verifyTables } from "./verify-tables.ts";
import { verifyWitness } from "./verify-witness.ts";
import { HoldfastError } from "@holdfast/platform/error";
import { type Problem, type VerifyEvent, type VerifyParams, runNotFound } from "@holdfast/core/store";

export interface VerifyWork extends VerifyParams {
  readonly open: () => void;
}

/** Store, tables and files first, then each run from its birth on. Reads in short transactions; writers go on. */
export async function* verify(
  handle: Handle,
  books: CheckpointBooks,
  effects: Effects,
  params: VerifyWork,
): AsyncGenerator<VerifyEvent> {
  const totals = { runs: 0, entries: 0, checkpoints: 0, chunks: 0 };
  let problems = 0;

  function go(): void {
    params.open();
    if (params.signal?.aborted === true)
      throw new HoldfastError({ code: "INTERRUPTED", message: "Verification was stopped", hint: "Run it again." });
  }

  go();
  const { scope = "all" } = params;
  const { numbers, problems: ofRuns } = runNumbers(handle, params.run);
  const ofStore: Problem[] = [...ofRuns];
  if (params.run === undefined && scope === "all") ofStore.push(...verifyTables(handle), ...verifyWitness(handle));
  for (const problem of ofStore) {
    problems += 1;
    yield { kind: "problem", problem };
  }
  for (const no of numbers) {
    const walk = verifyRun(handle, books, effects, { no, scope });
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve));
      go();
      const step = walk.next();
      if (step.done === true) {
        totals.runs += 1;
        totals.entries += step.value.entries;
        totals.checkpoints += step.value.checkpoints;
        totals.chunks += step.value.chunks;
        for (const problem of step.value.problems) {
          problems += 1;
          yield { kind: "problem", problem };
        }
        break;
      }
      yield progressEvent(step.value);
    }
  }
  yield { kind: "summary", ok: problems === 0, ...totals, problems };
}

function progressEvent(progress: RunProgress): VerifyEvent {
  return { kind: "progress", run: progress.run, checked: progress.checked };
}

/** Those that can be read, from both ends: what a damaged page hides is told by the check of the tables. */
function runNumbers(handle: Handle, run: string | undefined): RunNumbers {
  if (run !== undefined) return runNumber(handle, run);
  const found = new Set<number>();
  for (const order of ["ASC", "DESC"] as const) {
    try {
      handle.transactions.read(() => {
        for (const row of handle.db.prepare(`SELECT no FROM runs ORDER BY no ${order}`).iterate())
          found.add(integer(row, "no"));
      });
      break;
    } catch (error) {
      if (order === "ASC") continue;
      const { message } = asHoldfastError(error, handle.layout.directory);
      const problem = storeProblem("STORE_CORRUPT", `The runs cannot all be read: ${message}`);
      return { numbers: [...found].toSorted((a, b) => a - b), problems: [problem] };
    }
  }
  return { numbers: [...found], problems: [] };
}

function runNumber(handle: Handle, run: string): RunNumbers {
  let found;
  try {
    found = handle.transactions.read(() => handle.runs.byId(run));
  } catch (error) {
    const told = asHoldfastError(error, handle.layout.directory);
    if (told.code !== "STORE_CORRUPT") throw told;
    return { numbers: [], problems: [storeProblem("STORE_CORRUPT", `The run ${run} cannot be read: ${told.message}`)] };
  }
  if (found === undefined) throw runNotFound(run);
  return { numbers: [found.no], problems: [] };
}

interface RunNumbers {
  readonly numbers: readonly number[];
  readonly problems: readonly Problem[];
}

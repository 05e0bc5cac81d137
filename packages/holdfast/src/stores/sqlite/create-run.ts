import type { Job } from "./group-commit.ts";
import type { Handle } from "./handle.ts";
import { birthDigest, birthRecord } from "@holdfast/core/journal";
import { deepFreeze } from "@holdfast/core/json";
import { HoldfastError } from "@holdfast/platform/error";
import { sameBirth } from "@holdfast/core/store-commit";
import { runExists } from "@holdfast/core/store";
import type { Run } from "@holdfast/core/run";
import { canonicalJson } from "@holdfast/core/values/canonical-json";

/** Keys are made of a run's number and 32 more bits, and must stay exact as JavaScript numbers. */
const MOST_RUNS = 2 ** 20;

export function createRun(handle: Handle, born: Omit<Run, "createdAt">): Job<Run | null, Run> {
  return {
    plan() {
      const found = handle.runs.byId(born.id);
      if (found !== undefined && !sameBirth(found.run, born)) throw runExists(born.id);
      if (found === undefined && handle.runs.lastNumber() >= MOST_RUNS) {
        throw new HoldfastError({
          code: "UNSUPPORTED",
          message: `A store holds at most ${MOST_RUNS} runs`,
          hint: "Begin another store.",
        });
      }
      return found?.run ?? null;
    },
    apply(existing) {
      if (existing !== null) return existing;
      const moment = handle.now();
      const run: Run = deepFreeze({ ...born, createdAt: moment.iso });
      const birth = birthRecord(run);
      const no = handle.runs.insert(run, canonicalJson(birth));
      const head = {
        no,
        run,
        stamp: 0,
        epoch: 0,
        lease: null,
        entry: 0,
        hash: birthDigest(run, handle.hasher),
        sequence: 0,
        digest: null,
      };
      handle.append.outside(head, { kind: "run.created", body: birth }, moment);
      return run;
    },
  };
}

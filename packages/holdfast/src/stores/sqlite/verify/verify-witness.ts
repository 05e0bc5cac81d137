import { contradiction } from "./check-cut.ts";
import type { Handle } from "../handle.ts";
import { asHoldfastError } from "../sqlite-errors.ts";
import { storeProblem } from "./verify-tables.ts";
import { readWitness } from "../witness/witness.ts";
import type { Problem } from "../../../ports/store.ts";

export function verifyWitness(handle: Handle): readonly Problem[] {
  const file = readWitness(handle.layout.witness);
  switch (file.kind) {
    case "absent":
      return [
        storeProblem(
          "STORE_MISSING",
          `The witness ${handle.layout.witness} is gone, so a cut database would not be noticed`,
        ),
      ];
    case "blank":
      return [
        storeProblem(
          "STORE_MISSING",
          `The witness ${handle.layout.witness} was emptied, so a cut database would not be noticed`,
        ),
      ];
    case "unreadable":
      return [
        storeProblem("STORE_CORRUPT", `The witness cannot be read: ${file.why}; remove it to have a new one begun`),
      ];
    case "read": {
      const problems = file.damaged.map((no) =>
        storeProblem("STORE_CORRUPT", `The witness's record of run number ${no} is damaged`),
      );
      if (file.storeId !== handle.storeId)
        problems.push(storeProblem("STORE_CORRUPT", "The witness belongs to another store"));
      for (const [no, testimony] of file.runs) {
        try {
          const why = handle.transactions.read(() => contradiction(handle, no, testimony));
          if (why !== null) problems.push(storeProblem("STORE_CUT", why));
        } catch (error) {
          problems.push(storeProblem("STORE_CORRUPT", asHoldfastError(error, handle.layout.directory).message));
        }
      }
      return problems;
    }
  }
}

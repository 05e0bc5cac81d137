import { integer } from "../columns.ts";
import { contradiction } from "./check-cut.ts";
import type { Handle } from "../handle.ts";
import { asHoldfastError } from "../sqlite-errors.ts";
import { storeProblem } from "./verify-tables.ts";
import { readWitness } from "../witness/witness.ts";
import type { Problem } from "@holdfast/core/store";

/** Without its record nothing says how far a run had come: each is named, with the newest checkpoint that the database has. */
function cutRecords(handle: Handle, how: string): readonly Problem[] {
  const what = `The high-water mark ${handle.layout.witness} ${how}: whether the run went further than this is not known`;
  const problems = handle.transactions.read(() =>
    handle.db
      .prepare("SELECT no FROM runs ORDER BY no")
      .all()
      .flatMap((row): readonly Problem[] => {
        const no = integer(row, "no");
        const run = handle.runs.byNumber(no)?.run.id ?? null;
        const [newest] = handle.places.marksDown(no);
        const entry = handle.places.lastEntry(no)?.number ?? null;
        const sequence = newest?.number ?? null;
        return [{ code: "HIGH_WATER_CUT", run, entry, sequence, what, trustedTo: null, newestIntact: null }];
      }),
  );
  return problems.length > 0 ? problems : [storeProblem("STORE_CORRUPT", what)];
}

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
    case "cut": {
      const { bytes } = file;
      return cutRecords(handle, `was cut to ${bytes} bytes`);
    }
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

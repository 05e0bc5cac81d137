import * as fc from "fast-check";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createWitness, readWitness } from "./witness.ts";
import { scratchDirectory } from "../../testing/store-contract/scratch-directory.ts";

const storeId = "0123456789abcdef0123456789abcdef";

test("the witness tells the newest head of each run, and damaged slots from good ones", () => {
  const directory = scratchDirectory(onTestFinished);
  let n = 0;
  const head = fc.record({
    no: fc.integer({ min: 1, max: 40 }),
    entry: fc.nat({ max: Number.MAX_SAFE_INTEGER }),
    hash: fc.stringMatching(/^[0-9a-f]{64}$/),
  });
  fc.assert(
    fc.property(
      fc.array(fc.array(head, { maxLength: 10 }), { minLength: 1, maxLength: 5 }),
      fc.nat(),
      (rounds, flip) => {
        const path = join(directory, String((n += 1)));
        const newest = new Map<number, { entry: number; hash: string }>();
        for (const heads of rounds) {
          const witness = createWitness({ path, storeId });
          witness.note(heads);
          witness.close();
          for (const { no, entry, hash } of heads) newest.set(no, { entry, hash });
        }
        const file = readWitness(path);
        if (newest.size === 0) {
          expect(file.kind).toBe("absent");
          return;
        }
        expect(file).toMatchObject({ kind: "read", storeId, damaged: [] });
        expect(file.kind === "read" ? new Map([...file.runs].sort()) : null).toEqual(new Map([...newest].sort()));
        const [no = 1] = newest.keys();
        const bytes = readFileSync(path);
        const at = no * 64 + (flip % 64);
        bytes[at] = (bytes[at] ?? 0) ^ 1;
        writeFileSync(path, bytes);
        const damaged = readWitness(path);
        expect(damaged.kind === "read" ? damaged.damaged : null).toEqual([no]);
      },
    ),
    { numRuns: 30 },
  );
});

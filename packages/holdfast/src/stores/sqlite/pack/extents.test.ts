import * as fc from "fast-check";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { createExtents } from "./extents.ts";

test("extents find, list and remove like a plain map, over any runs and gaps in the log", () => {
  const batch = fc.record({
    run: fc.integer({ min: 1, max: 3 }),
    steps: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 700 }),
    removals: fc.array(fc.nat({ max: 1500 }), { maxLength: 20 }),
  });
  fc.assert(
    fc.property(fc.array(batch, { maxLength: 6 }), fc.integer({ min: 1, max: 2000 }), (batches, before) => {
      const db = new DatabaseSync(":memory:");
      db.exec("CREATE TABLE marks (key INTEGER PRIMARY KEY, pos INTEGER NOT NULL, distances BLOB NOT NULL) STRICT");
      const extents = createExtents(db, "marks");
      const model = new Map<number, Map<number, number>>();
      const made = new Map<number, number>();
      let pos = 0;
      let removed = 0;
      for (const { run, steps, removals } of batches) {
        const first = (made.get(run) ?? 0) + 1;
        const positions = steps.map((step) => (pos += step));
        extents.add(run, first, positions);
        const known = model.get(run) ?? new Map<number, number>();
        model.set(run, known);
        for (const [i, at] of positions.entries()) known.set(first + i, at);
        made.set(run, first + positions.length - 1);
        extents.remove(run, removals);
        for (const number of removals) if (known.delete(number)) removed += 1;
      }
      for (const reader of [extents, createExtents(db, "marks")]) {
        for (let run = 1; run <= 3; run++) {
          const known = model.get(run) ?? new Map<number, number>();
          const down = [...known].sort((a, b) => b[0] - a[0]).map(([number, at]) => ({ number, pos: at }));
          expect([...reader.down(run, 2 ** 32)]).toEqual(down);
          expect([...reader.down(run, before)]).toEqual(down.filter(({ number }) => number < before));
          expect(reader.last(run)).toEqual(down[0]);
          for (const number of [1, 2, before, made.get(run) ?? 1, (made.get(run) ?? 0) + 1])
            expect(reader.find(run, number)).toBe(known.get(number));
        }
        const all = [...made.values()].reduce((sum, n) => sum + n, 0);
        expect(reader.count()).toEqual({ all, removed });
      }
      db.close();
    }),
    { numRuns: 40 },
  );
});

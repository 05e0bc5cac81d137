import fc from "fast-check";
import { expect, test } from "vitest";
import { NumberHeap } from "./number-heap.ts";

test("comes out in order, whatever goes in between", () => {
  fc.assert(
    fc.property(fc.array(fc.option(fc.integer(), { nil: undefined })), (acts) => {
      const heap = new NumberHeap();
      let model: number[] = [];
      for (const act of acts) {
        if (act === undefined) {
          expect(heap.pop()).toBe(model.length === 0 ? undefined : Math.min(...model));
          model = model.toSorted((a, b) => a - b).slice(1);
        } else {
          heap.push(act);
          model.push(act);
        }
        expect(heap.size).toBe(model.length);
      }
    }),
  );
});

// Runs the contract of dispatches.

import { beforeEach, describe, onTestFinished, test } from "vitest";
import { dispatchContract } from "@holdfast/testing/dispatch-contract";
import { type TestDispatch, openTestDispatch } from "./test-dispatches.ts";

/** No worker of these tests is dead, however slow the machine is. */
const TIMINGS = { lookMs: 20, heartbeatMs: 200, deadMs: 600_000 };

export function testDispatchContract(dispatches: readonly TestDispatch[]): void {
  describe.each(dispatches)("the dispatch on $name keeps the contract", ({ missing, location, lose }) => {
    beforeEach(({ skip }) => skip(missing !== null, missing ?? ""));

    for (const { name, run } of dispatchContract)
      test(name, async () => {
        const place = await location(onTestFinished);
        await run({
          async open(params = {}) {
            const dispatch = await openTestDispatch(place, { timings: TIMINGS, ...params });
            onTestFinished(() => dispatch.close());
            return dispatch;
          },
          lose: () => lose(place),
        });
      });
  });
}

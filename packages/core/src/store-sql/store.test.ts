import { describe, onTestFinished, test } from "vitest";
import { storeContract } from "@holdfast/testing/store-contract";
import { createSetClock } from "@holdfast/testing/store-contract/harness";
import { TEST_STORES, openTestStore } from "@holdfast/test-support/test-stores";

describe.each(TEST_STORES)("the SQL store on $name keeps the contract", ({ missing, location }) => {
  for (const { name, run } of storeContract) {
    test(name, async ({ skip }) => {
      skip(missing !== null, missing ?? "");
      const place = await location(onTestFinished);
      const clock = createSetClock();
      await run({
        clock,
        async open(identity) {
          const store = await openTestStore(place, { clock, ...(identity === undefined ? {} : { identity }) });
          onTestFinished(() => store.close());
          return store;
        },
      });
    });
  }
});

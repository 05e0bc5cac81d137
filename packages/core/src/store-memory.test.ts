import { describe, test } from "vitest";
import { storeContract } from "@holdfast/testing/store-contract";
import { createSetClock } from "@holdfast/testing/store-contract/harness";
import { createMemoryDatabase, openMemoryStore } from "./store-memory.ts";

describe("the memory store keeps the contract", () => {
  for (const { name, run } of storeContract) {
    test(name, async () => {
      const database = createMemoryDatabase();
      const clock = createSetClock();
      await run({
        clock,
        open: (identity) =>
          Promise.resolve(openMemoryStore({ database, clock, ...(identity === undefined ? {} : { identity }) })),
      });
    });
  }
});

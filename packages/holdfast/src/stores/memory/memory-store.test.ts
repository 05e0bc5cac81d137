import { describe, test } from "vitest";
import { openMemoryStore } from "./memory-store.ts";
import { createMemoryWorld } from "./world.ts";
import { createSetClock, storeContract } from "../../testing/store-contract.ts";

describe("the memory store keeps the contract", () => {
  for (const { name, run } of storeContract) {
    test(name, async () => {
      const world = createMemoryWorld();
      const clock = createSetClock();
      await run({
        clock,
        open: (identity) =>
          Promise.resolve(openMemoryStore({ world, clock, ...(identity === undefined ? {} : { identity }) })),
      });
    });
  }
});

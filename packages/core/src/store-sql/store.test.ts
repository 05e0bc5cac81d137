import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "vitest";
import { storeContract } from "@holdfast/testing/store-contract";
import { createSetClock } from "@holdfast/testing/store-contract/harness";
import type { Store } from "../store.ts";
import { openSqliteStore } from "./open.ts";

describe("the SQL store on SQLite keeps the contract", () => {
  for (const { name, run } of storeContract) {
    test(name, async () => {
      const directory = mkdtempSync(join(tmpdir(), "holdfast-store-"));
      const clock = createSetClock();
      const opened: Store[] = [];
      try {
        await run({
          clock,
          async open(identity) {
            const store = await openSqliteStore({ directory, clock, ...(identity === undefined ? {} : { identity }) });
            opened.push(store);
            return store;
          },
        });
      } finally {
        await Promise.all(opened.map((store) => store.close()));
        rmSync(directory, { recursive: true, force: true });
      }
    });
  }
});

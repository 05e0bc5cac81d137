import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { useMemory } from "./packages/holdfast/test/temporary-folder.ts";

const SETUP = ["packages/holdfast/test/property-seed.ts"];

useMemory();

export default defineConfig({
  test: {
    // The time limits below end a test that hangs. They are generous, so that a busy machine never fails one that is slow.
    // One more than there are processors: many tests wait for programs and timers. The default is one fewer.
    maxWorkers: availableParallelism() + 1,
    projects: [
      {
        test: {
          setupFiles: SETUP,
          name: "pure",
          include: ["packages/holdfast/src/core/**/*.test.ts"],
          isolate: false,
          pool: "threads",
          testTimeout: 600_000,
          hookTimeout: 600_000,
        },
      },
      {
        test: {
          setupFiles: SETUP,
          name: "adapters",
          include: ["packages/holdfast/src/**/*.test.ts"],
          exclude: ["packages/holdfast/src/core/**"],
          pool: "forks",
          testTimeout: 600_000,
          hookTimeout: 600_000,
        },
      },
      {
        test: {
          setupFiles: SETUP,
          name: "promises",
          include: ["packages/holdfast/test/**/*.test.ts"],
          pool: "forks",
          testTimeout: 600_000,
          hookTimeout: 600_000,
        },
      },
    ],
  },
});

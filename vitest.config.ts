import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "pure",
          include: ["packages/holdfast/src/core/**/*.test.ts"],
          isolate: false,
          pool: "threads",
          testTimeout: 60_000,
        },
      },
      {
        test: {
          name: "adapters",
          include: ["packages/holdfast/src/**/*.test.ts"],
          exclude: ["packages/holdfast/src/core/**"],
          pool: "forks",
          testTimeout: 60_000,
        },
      },
      {
        test: {
          name: "promises",
          include: ["packages/holdfast/test/**/*.test.ts"],
          pool: "forks",
          testTimeout: 300_000,
          hookTimeout: 300_000,
        },
      },
    ],
  },
});

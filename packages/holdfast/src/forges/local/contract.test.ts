import { describe, test } from "vitest";
import { forgeContract } from "../../testing/forge-contract.ts";
import { createLocalForgeScene } from "../../testing/scenes/local-forge-scene.ts";

describe("the local forge keeps the contract", () => {
  for (const { name, run } of forgeContract) {
    test(name, async () => {
      const scene = createLocalForgeScene();
      try {
        await run(scene);
      } finally {
        scene.dispose();
      }
    });
  }
});

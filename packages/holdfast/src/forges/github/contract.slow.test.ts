import { describe, test } from "vitest";
import { forgeContract } from "../../testing/forge-contract.ts";
import { createGithubScene } from "../../testing/scenes/github-scene.ts";
import { waysToForge } from "../../testing/ways-to-forge.ts";

for (const way of waysToForge("gh")) {
  describe.skipIf(way.skip)(`GitHub through ${way.name} keeps the contract`, () => {
    for (const { name, run } of forgeContract) {
      test(name, async () => {
        const scene = await createGithubScene(way.program);
        try {
          await run(scene);
        } finally {
          await scene.dispose();
        }
      });
    }
  });
}

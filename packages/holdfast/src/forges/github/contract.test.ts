import { describe, test } from "vitest";
import { forgeContract } from "../../testing/forge-contract.ts";
import { createGithubScene } from "../../testing/github-scene.ts";
import { waysToGithub } from "../../testing/ways-to-github.ts";

for (const way of waysToGithub()) {
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

import { describe, test } from "vitest";
import { forgeContract } from "../../testing/forge-contract.ts";
import { createGitlabScene } from "../../testing/scenes/gitlab-scene.ts";
import { waysToForge } from "../../testing/ways-to-forge.ts";

for (const way of waysToForge("glab")) {
  describe.skipIf(way.skip)(`GitLab through ${way.name} keeps the contract`, () => {
    for (const { name, run } of forgeContract) {
      test(name, async () => {
        const scene = await createGitlabScene(way.program);
        try {
          await run(scene);
        } finally {
          await scene.dispose();
        }
      });
    }
  });
}

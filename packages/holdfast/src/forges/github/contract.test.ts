import { describe, test } from "vitest";
import { findGh } from "../../testing/find-gh.ts";
import { forgeContract } from "../../testing/forge-contract.ts";
import { createGithubScene } from "../../testing/github-scene.ts";

const gh = findGh();

for (const [way, program] of [
  ["a token", null],
  ["gh", gh],
] as const) {
  const skipped = way === "gh" && gh === null;
  describe.skipIf(skipped)(`GitHub through ${way} keeps the contract${skipped ? " (skipped: no gh here)" : ""}`, () => {
    for (const { name, run } of forgeContract) {
      test(name, async () => {
        const scene = await createGithubScene(program);
        try {
          await run(scene);
        } finally {
          await scene.dispose();
        }
      });
    }
  });
}

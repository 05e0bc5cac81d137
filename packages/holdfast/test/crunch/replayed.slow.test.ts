import { expect, test } from "vitest";
import { PASS, settings } from "./answers.ts";
import { makeBench } from "./bench.ts";

test("a team's run, with its graphs and side worktrees, comes out of its record as it was", async () => {
  const issue = { labels: ["type:bug"] };
  await using bench = await makeBench({ answers: PASS, options: settings(), issue, mode: "logged" });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  const [refs, labels] = [await bench.git("remote", "for-each-ref"), await bench.labels()];
  const report = await bench.holdfast.work.replay({ run: bench.run });
  expect(report).toMatchObject({ verdict: "identical", divergence: null, outcome: "done" });
  expect(report.agents).toBeGreaterThan(0);
  expect([await bench.git("remote", "for-each-ref"), await bench.labels()]).toEqual([refs, labels]);
});

import { expect, test } from "vitest";
import { GOOD, workSuite } from "./testing/work-repository.ts";

const work = workSuite();

const poor = {
  when: { role: "review" },
  reply: "Hm.",
  scores: { faithful: 60, style: 60, docs: 60, corner_cases: 60 },
};

test("an issue's run whose second round broke the gate goes back to the files of the first, as they were after its review", async () => {
  const place = await work.begin();
  const second = {
    ...GOOD,
    when: { role: "impl", iteration: [2, 3] },
    edits: [{ do: "write", path: "answer.txt", text: "broken\n" }],
  };
  const first = { ...GOOD, when: { role: "impl", iteration: 1 } };
  const agent = await place.agent([first, second, poor]);
  const args = ["run", "1", "--agent", agent, "--gate", "! grep -q broken answer.txt", "--max-iterations", "3"];
  const failed = await place.run(...args);
  expect(failed.status, failed.stdout + failed.stderr).toBe(1);
  const { runs } = await place.json("list");
  const run = String(runs[0].id);
  const { rollback } = await place.json("restore", run, "--smart", "--dry-run");
  expect(rollback).toMatchObject({ kind: "back", cause: { kind: "regression" } });
  expect(rollback.cause.why).toMatch(
    /^gate-command passed with the files of checkpoint \d+ and fails with those of \d+/,
  );
  const { checkpoint } = await place.json("show", `${run}@${rollback.chosen}`);
  expect(checkpoint).toMatchObject({ stage: "impl", iteration: 2 });
  expect(checkpoint.planes.position.feedback).toContain("60");
});

import { expect, test } from "vitest";
import { workSuite } from "./testing/work-repository.ts";

const work = workSuite();

test("tokens and money that no agent reports are null in JSON and unknown in text, never 0", async () => {
  const place = await work.begin();
  // A plain command reports no usage.
  const loop = ["--task", "Write", "--workflow", "ralph", "--until", "test -f a.txt", "--no-first-check"];
  const ran = await place.run("run", ...loop, "--agent", "command:touch a.txt");
  expect(ran.status, ran.stdout + ran.stderr).toBe(0);
  const { runs } = await place.json("list");
  const [{ id }] = runs;
  expect(JSON.stringify(runs)).not.toMatch(/"(?:tokens|microUsd)":0/);
  const unknown = { tokens: null, microUsd: null, uncounted: 1, unpriced: 1 };
  expect((await place.json("status", id)).budget.spent).toMatchObject(unknown);
  expect((await place.json("show", `${id}@latest`)).checkpoint.planes.position.budget.spent).toMatchObject(unknown);
  expect((await place.json("compare", id, id)).runs[0].spent).toMatchObject(unknown);
  expect((await place.run("list")).stdout).not.toMatch(/\b0 tokens|\$0\.00/);
  // The plan of a rerun names what it would execute, as the plan of a run does.
  const dry = await place.json("rerun", id, "--dry-run");
  expect(dry.plan.uses).toMatchObject({ checks: ["test -f a.txt"], agents: [{ agent: "command:touch a.txt" }] });
  expect((await place.run("rerun", id, "--dry-run")).stdout).toMatch(/Would use[^]*touch a\.txt/);
  const { stdout } = await place.run("--json", "rerun", id);
  const report = JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "");
  expect(report.spent).toMatchObject({ a: unknown, b: unknown });
  for (const args of [
    ["status", id],
    ["show", `${id}@latest`],
    ["compare", id, report.run],
  ]) {
    const text = (await place.run(...args)).stdout;
    expect(text, args[0]).toContain("unknown");
    expect(text, args[0]).not.toMatch(/\b0 tokens|\$0\.00/);
  }
});

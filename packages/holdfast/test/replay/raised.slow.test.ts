import { expect, test } from "vitest";
import { makeScene } from "./recorded-loop.ts";

const RUN = "loop";
const OPTIONS = {
  task: "Count",
  until: ["echo FAIL $(cat log.txt | wc -l); false"],
  maxIterations: 2,
  detection: { stuck: null, oscillation: null, regression: null, burn: null },
};

test("a loop that continued beyond its limit is replayed to its last end, with the options that it had then", async () => {
  await using scene = await makeScene();
  await using holdfast = await scene.open();
  const work = { kind: "task", text: "count" } as const;
  await holdfast.start({ workflow: "ralph", id: RUN, work, agent: scene.agent, mode: "logged", options: OPTIONS });
  await holdfast.work.changeLimits({ run: RUN, limits: { max: 3 } });
  expect((await holdfast.resume({ run: RUN })).outcome).toMatchObject({ kind: "failed" });
  const raised = await holdfast.store.latest(RUN);
  expect(await holdfast.work.replay({ run: RUN })).toMatchObject({
    verdict: "identical",
    divergence: null,
    iteration: 3,
    to: raised?.sequence,
    agents: 3,
  });

  // Executed again, it comes as far as the first did in the end.
  const plan = await holdfast.work.planRerun({ run: RUN, id: "again" });
  const again = await holdfast.work.rerun({ of: RUN, plan });
  expect(again).toMatchObject({
    outcome: { kind: "failed" },
    compared: { step: { a: { came: { event: "limit_reached" } }, b: { came: { event: "again" } } } },
  });
  expect((await holdfast.store.latest("again"))?.planes).toMatchObject({
    position: { iteration: 3, budget: { limit: raised?.planes.position.budget.limit } },
    config: { inputs: { maxIterations: 3 } },
  });

  // Back to the first iteration: the limit remains raised, in what is done and in what is saved.
  await holdfast.resume({ run: RUN, from: 6, force: true });
  const newest = await holdfast.store.latest(RUN);
  expect(newest?.planes).toMatchObject({ position: { iteration: 3 }, config: { inputs: { maxIterations: 3 } } });
  expect(await holdfast.work.replay({ run: RUN })).toMatchObject({
    verdict: "identical",
    divergence: null,
    iteration: 3,
    to: newest?.sequence,
  });
});

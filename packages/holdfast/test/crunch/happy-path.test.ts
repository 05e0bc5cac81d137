import { expect, test } from "vitest";
import { makeBench } from "./bench.ts";

test("an issue goes through every phase to a pull request", async () => {
  await using bench = await makeBench({
    answers: [{ reply: '{"status": "SUCCESS", "summary": "Done."}' }],
  });
  const outcome = await bench.work();
  console.log(outcome, await bench.trail());
  console.log((await bench.state()).team?.members.map(m=>m.agent+":"+m.role), (await bench.state()).outputs.map(o=>o.phase+"/"+o.node), await bench.labels());
  console.log((await bench.state()).refused, (await bench.state()).messages.refused);
  console.log((await bench.journal()).length);
  expect(outcome).toMatchObject({ kind: "done" });
});

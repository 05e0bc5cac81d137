// A stand-in for a coding agent: five steps, each edits a file and saves a checkpoint. Started again, it goes on from the
// newest checkpoint. Usage: node examples/worker.mjs RUN [STEP] : with STEP it dies (kill -9) in the middle of that step.
import { writeFileSync } from "node:fs";
import { open } from "holdfast";

const [id = "demo", dieAt] = process.argv.slice(2);
await using holdfast = await open();
const known = (await holdfast.listRuns()).some((run) => run.id === id);
await using run = known ? await holdfast.run(id) : await holdfast.createRun({ id, workspace: "here" });

const latest = await run.latest();
const done = Number(latest?.planes.context.values.step ?? 0);
console.log(done === 0 ? "starting at step 1" : `going on after step ${done}, nothing is done twice`);

for (let step = done + 1; step <= 5; step++) {
  writeFileSync(`step-${step}.txt`, `written by step ${step}\n`);
  if (String(step) === dieAt) process.kill(process.pid, "SIGKILL");
  const checkpoint = await run.save({ values: { step }, stage: "impl", iteration: step, name: `after step ${step}` });
  console.log(`step ${step} saved as ${checkpoint.id}`);
}

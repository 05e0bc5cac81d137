// One engine in a process of its own: node worker.mjs MODULE DIRECTORY. Reads one load a line, {"runs", "steps"}. Answers one line:
// the milliseconds from the start of the runs until all are done, and the number of processes that were started meanwhile.
import { subscribe } from "node:diagnostics_channel";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [module, directory] = process.argv.slice(2);
const { open } = await import(pathToFileURL(module).href);
const engine = await open(directory);
let processes = 0;
subscribe("child_process", () => {
  processes += 1;
});
// When the parent was killed, the loop below still ends, so that servers are stopped.
process.stdout.on("error", () => undefined);
answer({ durability: engine.durability });
for await (const line of createInterface({ input: process.stdin })) {
  processes = 0;
  const began = performance.now();
  await engine.run(JSON.parse(line));
  answer({ ms: performance.now() - began, processes });
}
await engine.close();
process.exit(0);

function answer(value) {
  process.stdout.write(`@${JSON.stringify(value)}\n`);
}

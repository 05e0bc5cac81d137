// One peer in a process of its own: node worker.mjs MODULE DIRECTORY. Reads {"workflows", "steps"} a line, answers a line:
// when each step's body was entered (milliseconds, per workflow) and the processor time that this process took.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [module, directory] = process.argv.slice(2);
const { open } = await import(pathToFileURL(module).href);
const peer = await open(directory);
say({ servers: peer.servers ?? [], durability: peer.durability });
for await (const line of createInterface({ input: process.stdin })) {
  const { workflows, steps } = JSON.parse(line);
  const before = process.cpuUsage();
  const entered = await peer.run({ workflows, steps });
  const { user, system } = process.cpuUsage(before);
  say({ entered, cpuMs: (user + system) / 1000 });
}
await peer.close();
process.exit(0);

function say(answer) {
  process.stdout.write(`@${JSON.stringify(answer)}\n`);
}

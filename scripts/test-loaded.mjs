// npm run test:loaded: `npm test` while 20 busy loops compete for the processors. No test may fail because the machine is slow.
// Further arguments go to vitest.
import { spawn } from "node:child_process";
import { loadavg } from "node:os";
import { fileURLToPath } from "node:url";

const LOOPS = 20;
const loops = Array.from({ length: LOOPS }, () => spawn(process.execPath, ["-e", "for (;;);"], { stdio: "ignore" }));
const stop = () => {
  for (const loop of loops) loop.kill("SIGKILL");
};
process.on("exit", stop);
for (const [signal, status] of [
  ["SIGINT", 130],
  ["SIGTERM", 143],
])
  process.on(signal, () => process.exit(status));

const script = fileURLToPath(new URL("test.mjs", import.meta.url));
// In a process of its own, so that this one can still handle signals.
const test = spawn(process.execPath, [script, "fast", ...process.argv.slice(2)], {
  stdio: ["ignore", "pipe", "inherit"],
});
let last = "";
test.stdout.setEncoding("utf8").on("data", (text) => {
  process.stdout.write(text);
  last = (last + text).slice(-200);
});
test.on("close", (status) => {
  console.log(`load average ${loadavg()[0].toFixed(1)}, with ${LOOPS} busy loops`);
  console.log(last.trim().split("\n").at(-1) ?? "");
  process.exit(status ?? 1);
});

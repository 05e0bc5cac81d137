/** One process that calls the library's `start` for issue 1 of the current directory, and prints every event as a line. */
import { openHoldfast } from "../src/open.ts";

void (async () => {
  await using holdfast = await openHoldfast();
  const report = await holdfast.start({
    work: { kind: "issue", number: 1 },
    agent: process.argv[2] ?? null,
    options: { review: false },
    listen: (event) => void process.stdout.write(`${JSON.stringify(event)}\n`),
  });
  process.stdout.write(`${JSON.stringify(report)}\n`);
  process.exitCode = report.outcome.kind === "done" ? 0 : 1;
})();

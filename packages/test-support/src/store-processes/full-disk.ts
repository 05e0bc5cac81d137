// A child process that saves into a file system of a few hundred kilobytes until it is full, then prints what can still be read.

import { appendFileSync, mkdirSync } from "node:fs";
import { HoldfastError } from "@holdfast/platform/error";
import { writeWithReserve } from "@holdfast/core/store";
import { leasedRun, save } from "@holdfast/testing/store-contract/harness";
import { samplePause } from "@holdfast/testing/store-contract/signals";
import { openSqliteStore } from "@holdfast/core/store-sql/open";

const [directory = ""] = process.argv.slice(2);

let seed = 3;
function noise(length: number): string {
  let text = "";
  while (text.length < length) text += (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0).toString(36);
  return text.slice(0, length);
}

mkdirSync(directory, { recursive: true });
const store = await openSqliteStore({ directory });
const lease = await leasedRun(store);
let acknowledged = 0;
let refusal = "none";
for (let n = 1; n <= 1000 && refusal === "none"; n++) {
  try {
    await save(store, lease, { values: { n, text: noise(n % 3 === 0 ? 12_000 : 500) } });
    acknowledged = n;
  } catch (error) {
    refusal = error instanceof HoldfastError ? error.code : String(error);
  }
}
// Not a byte is left, and the signal is longer than the space in the log that the refused save has allocated.
try {
  for (;;) appendFileSync(`${directory}.rest`, Buffer.alloc(4096, 1));
} catch {
  // The disk is full.
}
// Its own handle, as another process would use it.
const sender = await openSqliteStore({ directory });
const long = { ...samplePause, reason: noise(40_000) };
const signal = await writeWithReserve(sender, () => sender.putSignal(long)).then(
  () => "sent",
  (error: unknown) => (error instanceof HoldfastError ? error.code : String(error)),
);
const received = (await store.listSignals("sample")).length;
await sender.close();
const latest = await store.latest("sample");
await store.close().catch(() => {});
const again = await openSqliteStore({ directory, readOnly: true });
const reread = await again.latest("sample");
let problems = 0;
for await (const event of again.verify()) if (event.kind === "problem") problems += 1;
await again.close();
process.stdout.write(
  `${JSON.stringify({ acknowledged, refusal, latest: latest?.sequence, reread: reread?.planes.context.values["n"], problems, signal, received })}\n`,
);

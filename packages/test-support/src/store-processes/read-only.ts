// A child process that reads a store on a read-only file system.

import { HoldfastError } from "@holdfast/platform/error";
import { openSqliteStore } from "@holdfast/core/store-sql/open";

const [directory = ""] = process.argv.slice(2);
const store = await openSqliteStore({ directory });
const latest = await store.latest("sample");
const refusal = await store.setMeta("k", "v").then(
  () => "written",
  (error: unknown) => (error instanceof HoldfastError ? error.code : String(error)),
);
let problems = 0;
for await (const event of store.verify()) if (event.kind === "problem") problems += 1;
await store.close();
process.stdout.write(`${JSON.stringify({ latest: latest?.sequence, refusal, problems })}\n`);

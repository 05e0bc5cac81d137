// A child process that does one large operation, so that a test can measure its memory. It prints its result and the peak.

import { randomBytes } from "node:crypto";
import { leasedRun, save } from "@holdfast/testing/store-contract/harness";
import { openSqliteStore } from "@holdfast/core/store-sql/open";

const [what = "", directory = "", size = "0"] = process.argv.slice(2);
const count = Number(size);
const store = await openSqliteStore({ directory });
const lease = await leasedRun(store);
const before = process.resourceUsage().maxRSS;
let found: unknown;

if (what === "checkpoints") {
  for (let n = 0; n < count; n += 500) {
    await Promise.all(
      Array.from({ length: Math.min(500, count - n) }, (_, i) => save(store, lease, { values: { n: n + i + 1 } })),
    );
  }
  let entries = 0;
  for await (const entry of store.readJournal({ run: "sample" })) entries += entry.kind === "checkpoint" ? 1 : 0;
  let listed = 0;
  for (let page = await store.listCheckpoints({ run: "sample", limit: 1000 }); page.length > 0;) {
    listed += page.length;
    const last = page.at(-1)?.sequence ?? 0;
    page = await store.listCheckpoints({ run: "sample", limit: 1000, before: last });
  }
  let problems = 0;
  for await (const event of store.verify()) if (event.kind === "problem") problems += 1;
  const middle = await store.getCheckpoint({ run: "sample", sequence: Math.ceil(count / 2) });
  found = { entries, listed, problems, middle: middle.planes.context.values["n"] };
} else if (what === "keys") {
  const values: Record<string, number> = {};
  for (let i = 0; i < count; i++) values[`key-${i}`] = i;
  await save(store, lease, { values: { values } });
  values["key-7"] = -7;
  const { checkpoint } = await save(store, lease, { values: { values } });
  const read = (await store.latest("sample"))?.planes.context.values["values"];
  const keys = typeof read === "object" && read !== null ? Object.keys(read).length : 0;
  found = {
    keys,
    changed: Reflect.get(Object(read), "key-7"),
    last: Reflect.get(Object(read), `key-${count - 1}`),
    small: (checkpoint?.size.added ?? 0) < 20_000,
  };
} else if (what === "value") {
  const text = randomBytes(count / 2).toString("hex");
  await save(store, lease, { values: { text } });
  const { checkpoint } = await save(store, lease, {
    values: { text: `${text.slice(0, count / 2)}!${text.slice(count / 2)}` },
  });
  const read = (await store.getCheckpoint({ run: "sample", sequence: 1 })).planes.context.values["text"];
  found = { same: read === text, small: (checkpoint?.size.added ?? 0) < count / 10 };
}
await store.close();
process.stdout.write(
  `${JSON.stringify({ found, grownMB: Math.round((process.resourceUsage().maxRSS - before) / 1024) })}\n`,
);

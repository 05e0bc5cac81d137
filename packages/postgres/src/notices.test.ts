import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { postgresMissing, sharedPostgres } from "@holdfast/test-support/postgres-server";
import { type Notices, createNotices } from "./notices.ts";
import { type Target, parseTarget } from "./target.ts";

const missing = postgresMissing();

async function open(target: Target, own: string): Promise<Notices> {
  const client = new pg.Client(target.client);
  await client.connect();
  const notices = createNotices({ target, own, send: (channel) => client.query(`NOTIFY ${channel}, '${own}'`) });
  onTestFinished(async () => {
    await notices.close();
    await client.end();
  });
  return notices;
}

/** Without the part that differs every few seconds. */
const heard = (notices: Notices): number => Number(notices.version().split(" ")[0]);

test("a process that polls signals hears of signals, and not of commits", async ({ skip }) => {
  skip(missing !== null, missing ?? "");
  const target = parseTarget((await sharedPostgres()).url());
  const [one, other] = [await open(target, "1"), await open(target, "2")];
  let commits = 0;
  const end = other.onChange(() => (commits += 1));
  onTestFinished(end);
  // Until it listens, it answers differently each time.
  while (heard(other) === 0) await delay(10);
  const [before, seen] = [heard(other), commits];
  // The server delivers the notices of one connection in their order.
  one.committed();
  one.signalled();
  while (heard(other) === before) await delay(10);
  expect(heard(other)).toBe(before + 1);
  expect(commits).toBeGreaterThan(seen);
  // Its own signals too: the run may be executed by the same process.
  other.signalled();
  expect(heard(other)).toBe(before + 2);
});

import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { GOOD, workSuite } from "./testing/work-repository.ts";
import type { WorkPlace } from "./testing/work-repository.ts";

const work = workSuite();

/** Killed while the reviewer works, when everything of the implementation is saved. */
async function dieInReview(place: WorkPlace): Promise<void> {
  const agent = await place.agent([GOOD, { when: { role: "review" }, hang: true, reply: "" }]);
  const first = place.start("run", "1", "--agent", agent);
  await first.says("review #1");
  first.child.kill("SIGKILL");
  await first.ended;
  await place.agent([
    GOOD,
    { when: { role: "review" }, scores: { faithful: 95, style: 95, docs: 95, corner_cases: 95 } },
  ]);
}

function damageNewest(place: WorkPlace): number {
  const database = new DatabaseSync(join(place.clone, ".git/holdfast/store.db"));
  const [row] = database
    .prepare("SELECT pos, sequence, body FROM log WHERE sequence IS NOT NULL ORDER BY pos DESC LIMIT 1")
    .all();
  const { pos, sequence, body } = row ?? {};
  if (!(body instanceof Uint8Array) || typeof pos !== "number" || typeof sequence !== "number")
    throw new TypeError("no checkpoint to damage");
  const flipped = body.map((byte, at) => (Math.abs(at - body.length / 2) < 2 ? byte ^ 0xff : byte));
  database.prepare("UPDATE log SET body = ? WHERE pos = ?").run(flipped, pos);
  database.close();
  return sequence;
}

/** One letter of a finished step's result, which no resume reads: a newer checkpoint holds it. */
function alterOldEntry(place: WorkPlace): number {
  const database = new DatabaseSync(join(place.clone, ".git/holdfast/store.db"));
  const rows = database.prepare("SELECT pos, body FROM log WHERE body IS NOT NULL ORDER BY pos").all();
  const altered = rows.filter(({ pos, body }) => {
    const text =
      typeof body === "string" ? body : body instanceof Uint8Array ? Buffer.from(body).toString("latin1") : "";
    if (!text.includes('"stage":"setup"')) return false;
    const other = text.replace('"stage":"setup"', '"stage":"setuP"');
    const bytes = typeof body === "string" ? other : Buffer.from(other, "latin1");
    return database.prepare("UPDATE log SET body = ? WHERE pos = ?").run(bytes, Number(pos)).changes === 1;
  });
  database.close();
  return altered.length;
}

test("an entry that a resume does not need is altered: it asks before it spends anything, and compare says so", async () => {
  const place = await work.begin();
  await dieInReview(place);
  expect(alterOldEntry(place)).toBeGreaterThan(0);
  const compared = await place.run("compare", "1", "1");
  expect(compared.status).toBe(0);
  expect(compared.stdout.replaceAll(/\s+/g, " ")).toMatch(
    /damaged The journal of issue-1: The chain breaks at entry \d+/,
  );
  const calls = async () => (await place.json("compare", "1", "1")).runs[0].calls;
  const before = await calls();
  const asked = await place.run("resume", "1");
  expect(asked.status, asked.stdout).toBe(4);
  expect(asked.stdout + asked.stderr).toContain("--accept journal_damaged");
  expect(await calls()).toBe(before);
  const resumed = await place.run("resume", "1", "--accept", "journal_damaged");
  expect(resumed.status, resumed.stdout + resumed.stderr).toBe(0);
  expect(resumed.stdout).toContain("Done issue-1");
});

test("the newest checkpoint is damaged: status says so, resume goes on from the one before", async () => {
  const place = await work.begin();
  await dieInReview(place);
  const sequence = damageNewest(place);
  const status = await place.run("status", "1");
  expect(status).toMatchObject({ status: 0 });
  expect(status.stdout).toContain(`damaged     @${sequence}`);
  const resumed = await place.run("resume", "1");
  expect(resumed.status, resumed.stdout + resumed.stderr).toBe(0);
  expect(resumed.stdout).toContain(`@${sequence}`);
  expect(resumed.stdout).toContain("Done issue-1");
});

test("with the newest damaged, an older one can still be chosen", async () => {
  const place = await work.begin();
  await dieInReview(place);
  damageNewest(place);
  const resumed = await place.run("resume", "issue-1@2");
  expect(resumed.status, resumed.stdout + resumed.stderr).toBe(0);
});

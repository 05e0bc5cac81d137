import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { GOOD, workSuite } from "./work-repository.ts";
import type { WorkPlace } from "./work-repository.ts";

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

import { rmSync } from "node:fs";
import { expect, test } from "vitest";
import { RUN, createStoppedRun } from "@holdfast/test-support/core/resume-scene";
import type { CoreAdapters } from "./adapters.ts";
import type { VerifyEvent } from "./store.ts";
import { repair, verifyRun } from "./verify.ts";

async function verify(adapters: CoreAdapters): Promise<readonly VerifyEvent[]> {
  const events: VerifyEvent[] = [];
  for await (const event of verifyRun(adapters, {})) if (event.kind !== "progress") events.push(event);
  return events;
}

test("missing files of a shared store are damage only if this repository had them", async () => {
  const scene = await createStoppedRun();
  scene.worktree().write("new.txt", "new");
  await scene.save();
  const { sequence, planes } = await scene.newest();
  const tree = planes.files?.tree ?? "";
  rmSync(scene.repo.path(`.git/objects/${tree.slice(0, 2)}/${tree.slice(2)}`));
  const shared = { ...scene.adapters, ownsRefs: false };
  const damage = { kind: "problem", problem: { code: "TREE_MISSING", run: RUN, sequence } };
  expect(await verify(shared)).toMatchObject([damage, { kind: "summary", ok: false, problems: 1 }]);

  scene.repo.git("update-ref", "-d", `refs/holdfast/${RUN}/${sequence}`);
  const elsewhere = await verify(shared);
  expect(elsewhere).toMatchObject([
    { kind: "absent", run: RUN, checkpoints: 1 },
    { kind: "summary", ok: true, problems: 0 },
  ]);
  expect(await repair(shared, elsewhere)).toEqual([]);
  expect(await verify(scene.adapters)).toMatchObject([damage, { kind: "summary", ok: false }]);
});

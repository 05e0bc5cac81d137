import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RunWithStatus } from "@holdfast/core/run-statuses";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { openTestStore } from "@holdfast/test-support/test-stores";
import { expect, onTestFinished, test } from "vitest";
import { openDispatch } from "./open-dispatch.ts";
import { jobOf } from "./plan-fleet.ts";
import { createQueueReader } from "./read-queue.ts";

test("a queue that cannot be read has no entries, and it is read again when it can be", async () => {
  const folder = scratchDirectory(onTestFinished);
  const store = await openTestStore(join(folder, "store"));
  onTestFinished(() => store.close());
  const place = join(folder, "queue");
  const settings = { store: null, fleet: { dispatch: place, queueOf: {}, limits: {} } };
  const queue = createQueueReader({ store, settings, env: {} });
  onTestFinished(() => queue.close());
  const run: RunWithStatus = {
    run: {
      id: "issue-1",
      createdAt: "2026-11-15T11:40:00.000Z",
      workflow: "impl",
      work: { kind: "issue", number: 1 },
      forkedFrom: null,
      labels: {},
      state: { kind: "active" },
      unfinishedRestore: null,
      checkpoints: 1,
      latest: null,
      entries: 3,
    },
    status: { kind: "queued", holder: null, position: null },
    resumable: false,
    priority: 0,
    submitted: true,
  };
  writeFileSync(place, "no directory\n");
  expect(await queue.read([{ ...run, submitted: false }])).toEqual(new Map());
  expect(await queue.read([run])).toEqual(new Map());
  rmSync(place);
  expect(await queue.read([run])).toEqual(new Map());
  expect(existsSync(place)).toBe(false);
  const dispatch = await openDispatch(place, { limits: {}, env: {} });
  onTestFinished(() => dispatch.close());
  const submission = { queue: "claude", repository: "acme/shop", priority: 0, needs: [], host: null, at: null };
  for (const [id, name] of [
    [store.id, "issue-1"],
    ["another store", "issue-1"],
    [store.id, "issue-2"],
  ] as const)
    await dispatch.submit(jobOf(id, name, submission));
  const found = await queue.read([run]);
  expect([...found.keys()]).toEqual(["issue-1"]);
  expect(found.get("issue-1")).toMatchObject({
    store: store.id,
    queue: "claude",
    why: "no worker has joined",
    failures: 0,
  });
});

import { expect, onTestFinished, test, vi } from "vitest";
import type { FilesPlane } from "@holdfast/core/checkpoint";
import { openMemoryStore } from "@holdfast/core/store-memory";
import type { FilesFetch, FilesRemote, Workspaces } from "@holdfast/core/workspace";
import { leasedRun, save } from "@holdfast/testing/store-contract/harness";
import { RunFiles } from "./run-files.ts";

const AWAY = { kind: "refused", refusal: { cause: "network", message: "no route" } } as const;
const FILES: Pick<FilesPlane, "ref" | "tree" | "snapshot"> = {
  ref: "refs/holdfast/r-1/1",
  tree: "1".repeat(40),
  snapshot: "2".repeat(40),
};

function remoteThat(does: Partial<FilesRemote>): FilesRemote {
  return {
    url: "origin",
    push: async () => ({ kind: "same" }),
    fetch: async () => ({ kind: "same" }),
    remove: async () => null,
    unpushed: async () => ({ remote: "origin", snapshots: 1, problem: null }),
    ...does,
  };
}

test("a remote that was away, or had nothing yet, is asked again later, and at once by many only once", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  onTestFinished(() => void vi.useRealTimers());
  const answers: FilesFetch[] = [AWAY, { kind: "absent" }, { kind: "fetched", snapshots: 1 }];
  let [asked, isHere] = [0, false];
  const remote = remoteThat({
    async fetch() {
      const answer = answers[asked] ?? AWAY;
      asked += 1;
      isHere = answer.kind === "fetched";
      return answer;
    },
  });
  // The part that is used.
  const own = { has: async () => isHere } as Partial<Workspaces> as Workspaces;
  const workspaces = new RunFiles({ remote, isShared: true }).fetchMissing(own);
  const ask = () => Promise.allSettled([1, 2, 3].map(() => workspaces.has(FILES)));
  expect((await ask()).map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
  await expect(workspaces.has(FILES)).rejects.toMatchObject({ code: "TREE_MISSING" });
  expect(asked).toBe(1);
  vi.advanceTimersByTime(60_000);
  expect(await workspaces.has(FILES)).toBe(false);
  expect(asked).toBe(2);
  vi.advanceTimersByTime(60_000);
  expect(await workspaces.has(FILES)).toBe(true);
  expect(asked).toBe(3);
});

test("while a push hangs, one more waits for it, however many checkpoints are saved meanwhile", async () => {
  let [pushes, release] = [0, (): void => {}];
  const held = new Promise<void>((resolve) => (release = resolve));
  const remote = remoteThat({
    async push() {
      pushes += 1;
      await held;
      return AWAY;
    },
  });
  const store = new RunFiles({ remote, isShared: true, waitMs: 1 }).sendWithSaves(openMemoryStore());
  const lease = await leasedRun(store);
  for (let n = 1; n <= 5; n++) await save(store, lease, { values: { n } });
  expect(pushes).toBe(1);
  release();
  await store.releaseLease(lease);
  await store.close();
  expect(pushes).toBeLessThanOrEqual(3);
});

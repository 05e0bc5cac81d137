import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { expect, onTestFinished, test } from "vitest";
import { openHoldfast } from "../open.ts";
import { Repositories } from "./repositories.ts";
import { readRunPage } from "./run-page.ts";

test("a fork that has not run waits; only a run that ran has stopped", async () => {
  const root = scratchDirectory(onTestFinished);
  execFileSync("git", ["init", "-q", root]);
  const store = join(root, ".git/holdfast");
  {
    await using holdfast = await openHoldfast({ cwd: root, store });
    const birth = { workflow: "impl", work: { kind: "task", text: "Do it" } } as const;
    const lease = await holdfast.store.takeLease({ run: "work", birth, label: "test" });
    const planes = emptyPlanes({ workflow: "impl", stage: "impl" });
    const entries = [{ kind: "run.paused", body: { reason: "stopped" } }] as const;
    await holdfast.store.commit({ lease, entries, checkpoint: { trigger: "stage", planes } });
    await holdfast.store.releaseLease(lease);
    await (await holdfast.run("work")).fork({ sequence: 1, id: "other", worktree: false });
  }
  const named = { id: "a", store, root, usedAt: "", key: "shop", name: "shop" };
  await using repositories = new Repositories({ list: () => [named], now: () => Date.now(), waits: true });
  const opened = await repositories.open("shop");
  const titleOf = async (run: string): Promise<string | undefined> =>
    (await readRunPage(opened, run, { now: Date.now(), findings: () => [] })).reasonCard?.title;
  expect([await titleOf("work"), await titleOf("other")]).toEqual(["Why it stopped", "Why it waits"]);
});

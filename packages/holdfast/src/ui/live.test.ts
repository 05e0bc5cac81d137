import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { expect, test } from "vitest";
import { openHoldfast } from "../open.ts";
import { LiveEvents, type Sent, concerns, parseTopics } from "./live.ts";
import { Repositories } from "./repositories.ts";

test("events reach the pages that asked for them", () => {
  const topics = parseTopics("run:shop/a,log:shop/b");
  const row = { number: 1, stage: "impl", step: "agent", bytes: 0, modifiedAt: "" };
  const entry = { entry: 1, kind: "note", at: "", epoch: 1, text: "" };
  expect(concerns({ event: "entry", data: { ...entry, key: "shop/a" } }, topics)).toBe(true);
  expect(concerns({ event: "entry", data: { ...entry, key: "shop/b" } }, topics)).toBe(false);
  expect(concerns({ event: "log", data: { key: "shop/b", row } }, topics)).toBe(true);
  const removed = (key: string) => ({ event: "removed", data: { key } }) as const;
  expect(concerns(removed("shop/a"), topics)).toBe(true);
  expect(concerns(removed("shop/b"), topics)).toBe(false);
  expect(concerns(removed("shop/b"), parseTopics("runs"))).toBe(true);
});

test("a list of repositories that cannot be read ends neither the stream nor the server", async () => {
  const list = (): never => {
    throw new Error("ENOTDIR");
  };
  const live = new LiveEvents(new Repositories({ list, now: () => Date.now(), waits: false }));
  const stop = live.listen({ topics: parseTopics("runs"), send: () => undefined });
  await live.watching;
  expect(live.streams).toBe(1);
  stop();
});

test("a store that is damaged while it is open makes no page fetch again and again", async ({ onTestFinished }) => {
  const root = scratchDirectory(onTestFinished);
  execFileSync("git", ["init", "-q", root]);
  const store = join(root, ".git/holdfast");
  {
    await using holdfast = await openHoldfast({ cwd: root, store });
    const birth = { workflow: "impl", work: { kind: "task", text: "Do it" } } as const;
    await holdfast.store.releaseLease(await holdfast.store.takeLease({ run: "one", birth, label: "test" }));
  }
  const named = { id: "a", store, root, usedAt: "", key: "shop", name: "shop" };
  await using repositories = new Repositories({ list: () => [named], now: () => Date.now(), waits: true });
  await repositories.runs(named);
  writeFileSync(join(store, "store.db"), "garbage".repeat(10_000));
  await expect(repositories.runs(named)).rejects.toMatchObject({ code: "STORE_CORRUPT" });
  const live = new LiveEvents(repositories);
  const sent: Sent[] = [];
  const stop = live.listen({ topics: parseTopics("runs"), send: (one) => void sent.push(one) });
  await live.watching;
  // What the failed watch still does.
  await sleep(50);
  stop();
  expect(sent).toEqual([]);
});

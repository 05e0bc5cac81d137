import { expect, test } from "vitest";
import { LiveEvents, concerns, parseTopics } from "./live.ts";
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

import { expect, test } from "vitest";
import { EventRing, concerns, parseTopics } from "./live.ts";

test("a page that comes back gets what it missed, or knows that it cannot", () => {
  const ring = new EventRing("abc");
  const ping = { event: "ping", data: { asOf: "" } } as const;
  for (let at = 0; at < 5; at += 1) ring.add(ping);
  expect(ring.since("abc.3")?.map(({ id }) => id)).toEqual(["abc.4", "abc.5"]);
  expect(ring.since("abc.5")).toEqual([]);
  for (const unknown of ["abc.6", "other.3", "", "abc.", "abc.x", "abc.-1"])
    expect(ring.since(unknown), unknown).toBeNull();
  for (let at = 0; at < 30_000; at += 1) ring.add(ping);
  expect(ring.since("abc.5")).toBeNull();
  expect(ring.since("abc.30000")).toHaveLength(5);
});

test("events reach the pages that asked for them", () => {
  const topics = parseTopics("run:shop/a,log:shop/b");
  const entry = { entry: 1, kind: "note", at: "", epoch: 1, text: "" };
  expect(concerns({ event: "entry", data: { ...entry, key: "shop/a" } }, topics)).toBe(true);
  expect(concerns({ event: "entry", data: { ...entry, key: "shop/b" } }, topics)).toBe(false);
  expect(concerns({ event: "log", data: { key: "shop/b", number: 1, offset: 0, text: "" } }, topics)).toBe(true);
  expect(concerns({ event: "inbox", data: { count: 1 } }, topics)).toBe(false);
  expect(concerns({ event: "inbox", data: { count: 1 } }, parseTopics("runs"))).toBe(true);
});

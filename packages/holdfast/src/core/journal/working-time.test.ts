import { expect, test } from "vitest";
import type { EntryKind } from "./journal.ts";
import type { JsonObject } from "../json.ts";
import { workingTime } from "./working-time.ts";

const entry = (second: number, epoch: number, kind: EntryKind = "note", body: JsonObject = {}) => ({
  kind,
  at: new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString(),
  epoch,
  body,
});
const taken = (second: number, epoch: number, from: JsonObject | null = null) =>
  entry(second, epoch, "lease.taken", { from });

test("time passes under one lease, and not between two", () => {
  expect(
    workingTime([
      entry(10, 1, "checkpoint"),
      entry(15, 1),
      entry(20, 1, "lease.released"),
      taken(900, 2),
      entry(903, 2),
    ]),
  ).toBe(13_000);
});

test("a holder that died worked until it was last heard of", () => {
  const from = { epoch: 1, heartbeatAt: entry(70, 1).at };
  expect(workingTime([entry(10, 1, "checkpoint"), entry(12, 1), taken(500, 2, from), entry(501, 2)])).toBe(61_000);
  expect(workingTime([entry(10, 1), taken(500, 3, { epoch: 2, heartbeatAt: from.heartbeatAt })])).toBe(0);
});

test("a clock that was set back takes nothing away, and a tag is no work", () => {
  expect(workingTime([entry(50, 1), entry(20, 1), entry(25, 1), entry(900, 0), entry(26, 1)])).toBe(6000);
  expect(workingTime([])).toBe(0);
});

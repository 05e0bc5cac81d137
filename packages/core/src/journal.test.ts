import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TRIGGERS } from "./checkpoint.ts";
import {
  type CheckpointHead,
  type EntryKind,
  birthDigest,
  birthRecord,
  checkpointBodyText,
  entryHash,
  foldSince,
  workingTime,
} from "./journal.ts";
import type { Hasher, JsonObject } from "./json.ts";
import { NO_ATTEMPT } from "./position.ts";
import { canonicalJson } from "./values.ts";

describe("chain", () => {
  const sha256: Hasher = (data) => createHash("sha256").update(data).digest("hex");

  const text = fc.string({ unit: "grapheme" });
  const digest = fc.stringMatching(/^[0-9a-f]{64}$/);
  const number = fc
    .oneof(fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }))
    .map((n) => (n === 0 ? 0 : n));
  const parent = fc.option(fc.record({ id: fc.nat().map((n) => `run@${n}` as const), digest }));
  const heads: fc.Arbitrary<CheckpointHead> = fc.record({
    sequence: fc.integer({ min: 1 }),
    trigger: fc.constantFrom(...TRIGGERS),
    name: fc.option(text),
    stage: text,
    iteration: number,
    score: fc.option(number),
    tree: fc.option(text),
    logical: fc.nat(),
    added: fc.nat(),
    root: digest,
  });

  test("a checkpoint's body is written as canonical JSON", () => {
    fc.assert(
      fc.property(heads, parent, (head, above) => {
        expect(checkpointBodyText(head, above)).toBe(canonicalJson({ ...head, parent: above }));
      }),
    );
  });

  test("an entry's hash covers the hash before it and every field of the entry", () => {
    const entry = { run: "r-1", entry: 7, kind: 'x.it\'s "mine"', at: "2026-03-01T12:00:00.000Z", epoch: 2 } as const;
    const body = { b: [1, "é"], a: null };
    const expected = sha256(`holdfast-entry-1\n${"0".repeat(64)}\n${canonicalJson({ ...entry, body })}`);
    const link = { ...entry, body: canonicalJson(body) };
    expect(entryHash("0".repeat(64), link)).toBe(expected);
    const others = [
      entryHash("1".repeat(64), link),
      ...[
        { run: "r-2" },
        { entry: 8 },
        { kind: "note" as const },
        { at: "2026-03-01T12:00:00.001Z" },
        { epoch: 3 },
        { body: "{}" },
      ].map((change) => entryHash("0".repeat(64), { ...link, ...change })),
    ];
    expect(new Set([expected, ...others]).size).toBe(8);
  });

  test("a run's chain starts at its first record", () => {
    const run = {
      id: "r",
      createdAt: "2026-03-01T12:00:00.000Z",
      workflow: "impl",
      work: { kind: "task", text: "t" },
      forkedFrom: null,
      labels: { z: 1, a: 2 },
    } as const;
    expect(birthDigest(run)).toBe(sha256(canonicalJson(birthRecord(run))));
    expect(birthDigest({ ...run, labels: {} })).not.toBe(birthDigest(run));
  });
});

describe("since checkpoint", () => {
  const id = (letter: string): string => letter.repeat(40);
  const finished = (result: string | object) => ({
    kind: "step.finished" as const,
    body: { stageAttempt: 1, step: "s", result: JSON.parse(JSON.stringify(result)), spent: null },
  });

  test("commits are found in every result and receipt, and nothing else counts as one", () => {
    const { commits, changesFiles } = foldSince({
      stageAttempt: NO_ATTEMPT,
      entries: [
        finished({ head: id("a"), other: [{ deep: id("b") }] }),
        { kind: "effect.settled", body: { key: "k", outcome: "done", adopted: false, receipt: { commit: id("c") } } },
        finished("abc"),
        { kind: "note", body: { text: id("d") } },
        { kind: "step.started", body: { stageAttempt: 1, step: "s", files: false, estimate: null } },
      ],
    });
    expect([...commits].toSorted()).toEqual([id("a"), id("b"), id("c")]);
    expect(changesFiles).toBe(false);
  });

  test("more entries never remove anything, in any order", () => {
    const entry = fc.constantFrom(
      finished({ head: id("a") }),
      finished({ head: id("b") }),
      { kind: "step.started" as const, body: { stageAttempt: 1, step: "s", files: true, estimate: null } },
      { kind: "step.failed" as const, body: { stageAttempt: 1, step: "s", reason: "r", spent: null } },
    );
    fc.assert(
      fc.property(fc.array(entry), fc.array(entry), (a, b) => {
        const both = foldSince({ stageAttempt: NO_ATTEMPT, entries: [...a, ...b] });
        const parts = [a, b].map((entries) => foldSince({ stageAttempt: NO_ATTEMPT, entries }));
        expect(both.changesFiles).toBe(parts.some((one) => one.changesFiles));
        expect(both.commits).toEqual(new Set(parts.flatMap((one) => [...one.commits])));
      }),
    );
  });
});

describe("working time", () => {
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

  test("an owner that died worked until its last heartbeat", () => {
    const from = { epoch: 1, heartbeatAt: entry(70, 1).at };
    expect(workingTime([entry(10, 1, "checkpoint"), entry(12, 1), taken(500, 2, from), entry(501, 2)])).toBe(61_000);
    expect(workingTime([entry(10, 1), taken(500, 3, { epoch: 2, heartbeatAt: from.heartbeatAt })])).toBe(0);
  });

  test("a clock that was set back removes nothing, and a tag is not work", () => {
    expect(workingTime([entry(50, 1), entry(20, 1), entry(25, 1), entry(900, 0), entry(26, 1)])).toBe(6000);
    expect(workingTime([])).toBe(0);
  });
});

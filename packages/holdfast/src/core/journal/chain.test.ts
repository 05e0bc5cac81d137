import * as fc from "fast-check";
import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { birthDigest, birthRecord, checkpointBody, checkpointBodyText, entryHash } from "./chain.ts";
import type { CheckpointHead } from "./chain.ts";
import type { Hasher } from "../json.ts";
import { TRIGGERS } from "../checkpoint/trigger.ts";
import { canonicalJson } from "../values/index.ts";

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
      expect(checkpointBodyText(head, above)).toBe(canonicalJson(checkpointBody(head, above)));
    }),
  );
});

test("an entry's hash covers the hash before it and every field of the entry", () => {
  const entry = { run: "r-1", entry: 7, kind: 'x.it\'s "mine"', at: "2026-03-01T12:00:00.000Z", epoch: 2 } as const;
  const body = { b: [1, "é"], a: null };
  const expected = sha256(`holdfast-entry-1\n${"0".repeat(64)}\n${canonicalJson({ ...entry, body })}`);
  const link = { ...entry, body: canonicalJson(body) };
  expect(entryHash("0".repeat(64), link, sha256)).toBe(expected);
  const others = [
    entryHash("1".repeat(64), link, sha256),
    ...[
      { run: "r-2" },
      { entry: 8 },
      { kind: "note" as const },
      { at: "2026-03-01T12:00:00.001Z" },
      { epoch: 3 },
      { body: "{}" },
    ].map((change) => entryHash("0".repeat(64), { ...link, ...change }, sha256)),
  ];
  expect(new Set([expected, ...others]).size).toBe(8);
});

test("a run's chain hangs on its birth record", () => {
  const run = {
    id: "r",
    createdAt: "2026-03-01T12:00:00.000Z",
    workflow: "impl",
    work: { kind: "task", text: "t" },
    forkedFrom: null,
    labels: { z: 1, a: 2 },
  } as const;
  expect(birthDigest(run, sha256)).toBe(sha256(canonicalJson(birthRecord(run))));
  expect(birthDigest({ ...run, labels: {} }, sha256)).not.toBe(birthDigest(run, sha256));
});

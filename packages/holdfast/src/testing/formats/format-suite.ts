import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parsePlanes } from "../../core/checkpoint/checkpoint-parse.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Json } from "../../core/json.ts";
import { canonicalJson } from "../../core/values/index.ts";
import type { Decoded, ForeignCheckpoint, ForeignFile } from "../../formats/format.ts";
import { arbitraryCheckpoint } from "./arbitrary-checkpoint.ts";
import { bitFlips, commonCorruptions, prefixes } from "./corruption-table.ts";
import { PATIENCE, propertyRuns } from "./format-harness.ts";
import type { FormatHarness } from "./format-harness.ts";
import { expectedPath, readGoldens } from "./goldens.ts";
import { isWithin, keepsOrder, lostPaths } from "./lost-paths.ts";
import { replaceAt } from "./replace-at.ts";

/** What every codec promises. Run it in a test file of the codec's own. */
export function formatSuite(harness: FormatHarness): void {
  const { format } = harness;
  const all = readGoldens();
  const own = all.filter((golden) => golden.format === format.name);

  describe("detect", () => {
    test.each(own)("claims $name", ({ file }) => {
      expect(format.detect(file)).toMatchObject({ match: "yes" });
    });
    test.each(all.filter((golden) => golden.format !== format.name))("leaves $format/$name alone", ({ file }) => {
      expect(format.detect(file)).toMatchObject({ match: "no" });
    });
    test("claims every valid file, and never throws", PATIENCE, () => {
      fc.assert(
        fc.property(harness.files, (file) => {
          expect(format.detect(file).match).toBe("yes");
        }),
        propertyRuns(100),
      );
      fc.assert(
        fc.property(junk, (file) => {
          expect(format.detect(file).match).toBe("no");
        }),
        propertyRuns(100),
      );
    });
  });

  describe("goldens", () => {
    test("are there", () => expect(own.length).toBeGreaterThan(0));
    test.each(own)("$name decodes as it always has", async (golden) => {
      const decoded = format.decode(golden.file);
      await expect(shown(decoded)).toMatchFileSnapshot(expectedPath(golden));
    });
    test.each(own)("$name comes back whole", ({ file }) => {
      expectRoundTrip(harness, file);
    });
  });

  test("valid documents come back whole", PATIENCE, () => {
    fc.assert(
      fc.property(harness.files, (file) => expectRoundTrip(harness, file)),
      propertyRuns(300),
    );
  });

  test("what is ours and cannot be carried is named", PATIENCE, () => {
    fc.assert(
      fc.property(arbitraryCheckpoint(), (checkpoint) => expectHonest(harness, checkpoint)),
      propertyRuns(200),
    );
  });

  describe("corruption", () => {
    const table = [...own.slice(0, 1).flatMap(commonCorruptions), ...harness.corruptions];
    test.each(table)("$name: $code", ({ file, code }) => {
      expect(refusalOf(harness, file)?.code).toBe(code);
    });
    test.each(harness.misfits)("$golden: $path = $value", ({ golden: name, path, value, blames }) => {
      const golden = own.find((one) => one.name === name);
      if (golden === undefined) throw new Error(`There is no golden ${name}`);
      const broken = harness.write(replaceAt(harness.parse(golden.file.bytes), path, value));
      const refusal = refusalOf(harness, { ...golden.file, bytes: broken });
      expect(refusal).toMatchObject({ code: "FORMAT_INVALID", data: { path: blames ?? path } });
    });
    test.each(own)("$name cut short", PATIENCE, (golden) => {
      for (const file of prefixes(golden)) {
        const refusal = refusalOf(harness, file);
        if (harness.endsAreMarked && !isWhole(golden.file, file)) expect(refusal?.code).toBe("FORMAT_DAMAGED");
        if (refusal === null) expectRoundTrip(harness, file);
      }
    });
    test.each(own)("$name with a bit turned", PATIENCE, (golden) => {
      for (const file of bitFlips(golden)) if (refusalOf(harness, file) === null) expectRoundTrip(harness, file);
    });
  });

  test("bytes changed at random are refused with a code, or come back whole", PATIENCE, () => {
    fc.assert(
      fc.property(harness.files, edits, (file, changes) => {
        const broken = { ...file, bytes: mutated(file.bytes, changes) };
        format.detect(broken);
        if (refusalOf(harness, broken) === null) expectRoundTrip(harness, broken);
      }),
      propertyRuns(300),
    );
  });
}

/** Nothing lost, keys where they were, and from the first writing on the same bytes for ever. */
function expectRoundTrip(harness: FormatHarness, file: ForeignFile): void {
  const { format } = harness;
  for (const checkpoint of format.decode(file).checkpoints) {
    parsePlanes(checkpoint.planes);
    canonicalJson({ ...checkpoint.planes } as unknown as Json);
    const first = format.encode(checkpoint);
    expect(first.losses).toEqual([]);
    const document = checkpoint.original?.document ?? {};
    const written = harness.parse(first.bytes);
    expect(lostPaths(document, written).filter((path) => !isWithin(path, harness.normalised))).toEqual([]);
    expect(keepsOrder(document, written)).toBe(true);
    const again = format.decode({ path: first.path, bytes: first.bytes, compression: file.compression }).checkpoints;
    expect(again.length).toBe(1);
    for (const second of again) {
      const rewritten = format.encode(second);
      expect(text(rewritten.bytes)).toBe(text(first.bytes));
      expect(rewritten.path).toBe(first.path);
      expect(rewritten.losses).toEqual([]);
    }
  }
}

/** Whatever is different after a way through the foreign format is named in the losses. */
function expectHonest(harness: FormatHarness, checkpoint: ForeignCheckpoint): void {
  const { format } = harness;
  let encoded;
  try {
    encoded = format.encode(checkpoint);
  } catch (error) {
    expectCoded(error);
    return;
  }
  const file: ForeignFile = { path: encoded.path, bytes: encoded.bytes, compression: "none" };
  const [back] = format.decode(file).checkpoints;
  if (back === undefined) throw new Error("It wrote a document without a checkpoint");
  const named = encoded.losses.map((loss) => `/${loss.path.replaceAll(".", "/")}`);
  const unnamed = lostPaths(comparable(checkpoint), comparable(back)).filter((path) => !isWithin(path, named));
  expect(unnamed, `losses: ${named.join(", ")}`).toEqual([]);
}

/** The planes' fields at the top, as losses name them. */
function comparable({ planes, id, createdAt, trigger, workflow, work }: ForeignCheckpoint): Json {
  return JSON.parse(JSON.stringify({ ...planes, id, createdAt, trigger, workflow, work }));
}

function refusalOf(harness: FormatHarness, file: ForeignFile): HoldfastError | null {
  try {
    harness.format.decode(file);
    return null;
  } catch (error) {
    return expectCoded(error);
  }
}

const CODES = ["FORMAT_INVALID", "FORMAT_DAMAGED", "FORMAT_TOO_NEW", "USAGE"];

function expectCoded(error: unknown): HoldfastError {
  if (!(error instanceof HoldfastError)) throw error;
  expect(CODES).toContain(error.code);
  expect(error.hint).toBeDefined();
  return error;
}

/** Without the document itself, which stands beside it. */
function shown(decoded: Decoded): string {
  const checkpoints = decoded.checkpoints.map(({ original, ...rest }) => ({ ...rest, original: original?.format }));
  return `${JSON.stringify({ checkpoints, remarks: decoded.remarks }, null, 2)}\n`;
}

function isWhole(whole: ForeignFile, cut: ForeignFile): boolean {
  return text(whole.bytes).trimEnd() === text(cut.bytes).trimEnd();
}

function text(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

const compression = "none";
const junk: fc.Arbitrary<ForeignFile> = fc
  .oneof(
    fc.uint8Array({ maxLength: 60 }),
    fc.json({ maxDepth: 3 }).map((json) => new TextEncoder().encode(json)),
  )
  .map((bytes) => ({ path: "notes.json", bytes, compression }));

type Edit = readonly [at: number, removed: number, added: Uint8Array];
const edits: fc.Arbitrary<readonly Edit[]> = fc.array(
  fc.tuple(
    fc.double({ min: 0, max: 1, noNaN: true }),
    fc.nat(3),
    fc.oneof(
      fc.uint8Array({ maxLength: 3 }),
      fc.constantFrom(...'{}[]",:0-1e\\null true\n# &*'.split("")).map((sign) => new TextEncoder().encode(sign)),
    ),
  ),
  { minLength: 1, maxLength: 4 },
);

function mutated(bytes: Uint8Array, changes: readonly Edit[]): Uint8Array {
  return changes.reduce((now, [place, removed, added]) => {
    const at = Math.floor(place * now.length);
    return Uint8Array.from([...now.subarray(0, at), ...added, ...now.subarray(at + removed)]);
  }, bytes);
}

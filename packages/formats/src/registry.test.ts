import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { arbitraryCheckpoint } from "@holdfast/test-support/formats/arbitrary-checkpoint";
import { propertyRuns, readGoldens } from "@holdfast/test-support/formats/format-suite";
import {
  type Detection,
  type ExternalCheckpoint,
  type ExternalFile,
  type Format,
  attachSourceDocument,
  toExternalCheckpoint,
} from "./format.ts";
import { FORMATS, detectFormat } from "./registry.ts";

const file: ExternalFile = { path: "a", bytes: new Uint8Array(), compression: "none" };
const saying = (name: Format["name"], match: Detection["match"]): Format => ({
  name,
  title: name,
  capabilities: { many: false, directory: false, resumable: false },
  detect: () => ({ match, why: `${name}: ${match}` }),
  decode: () => ({ checkpoints: [], remarks: [] }),
  encode: () => ({ bytes: new Uint8Array(), path: "", losses: [] }),
});

describe("detection chooses", () => {
  test("the one format that is certain, whatever the others report", () => {
    const formats = [saying("impl-json", "maybe"), saying("loop-json", "yes"), saying("context-store", "no")];
    expect(detectFormat(file, formats)).toMatchObject({ kind: "one", sure: true, format: { name: "loop-json" } });
  });
  test("the only format that may match, when none is certain", () => {
    const formats = [saying("impl-json", "maybe"), saying("loop-json", "no")];
    expect(detectFormat(file, formats)).toMatchObject({ kind: "one", sure: false, why: "impl-json: maybe" });
  });
  test.each(["yes", "maybe"] as const)("none, if several report %s", (match) => {
    const found = detectFormat(file, [saying("impl-json", match), saying("loop-json", match)]);
    expect(found).toMatchObject({ kind: "several", claims: [{ format: { name: "impl-json" } }, {}] });
  });
  test("none, each with a reason", () => {
    expect(detectFormat(file, [saying("impl-json", "no")])).toMatchObject({
      kind: "none",
      claims: [{ detection: { why: "impl-json: no" } }],
    });
  });
});

test("each format is registered once", () => {
  const names = FORMATS.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
});

test.each(readGoldens().filter(({ format }) => FORMATS.some(({ name }) => name === format)))(
  "$format/$name is detected as its format",
  ({ format, file: golden }) => {
    expect(detectFormat(golden)).toMatchObject({ kind: "one", sure: true, format: { name: format } });
  },
);

test("a damaged file with a known name still has a format", () => {
  expect(detectFormat({ ...file, path: "w/.tmp/impl-checkpoint.json" })).toMatchObject({ kind: "one", sure: false });
  expect(detectFormat({ ...file, path: ".aiwg/ralph/loops/l/checkpoints/iteration-001.json" })).toMatchObject({
    kind: "one",
    sure: false,
    format: { name: "loop-json" },
  });
});

describe("documents that Holdfast writes are valid without remarks", () => {
  const createdAt = "2026-03-01T10:00:00.000Z";
  const remarksOf = (format: Format, checkpoint: ExternalCheckpoint) => {
    const { bytes, path } = format.encode(checkpoint);
    return format.decode({ path, bytes, compression: "none" }).remarks;
  };

  test.each(FORMATS)("$name: any checkpoint of a run", (format) => {
    fc.assert(
      fc.property(arbitraryCheckpoint(), (any) => {
        // Exports of a run have a time, and no id of another tool.
        const checkpoint = { ...any, id: null, createdAt, planes: { ...any.planes, extensions: {} } };
        expect(remarksOf(format, checkpoint)).toEqual([]);
      }),
      propertyRuns(200),
    );
  });

  const imports = readGoldens().flatMap(({ format, name, file: golden }) => {
    const source = FORMATS.find((one) => one.name === format);
    return source === undefined
      ? []
      : FORMATS.filter((to) => to !== source).map((to) => ({ source, name, golden, to }));
  });
  test.each(imports)("$source.name/$name exported as $to.name", ({ source, golden, to }) => {
    for (const [at, decoded] of source.decode(golden).checkpoints.entries()) {
      const { workflow, work } = decoded;
      const planes = attachSourceDocument(decoded, source.name, at + 1);
      const saved = { trigger: "import", sequence: at + 1, createdAt, planes } as const;
      const { external } = toExternalCheckpoint({ workflow, work, labels: {} }, saved, to.name);
      expect(remarksOf(to, external)).toEqual([]);
    }
  });
});

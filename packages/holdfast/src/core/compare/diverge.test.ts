import fc from "fast-check";
import { expect, test } from "vitest";
import { findDivergence } from "./diverge.ts";
import type { Divergence, DivergingSide } from "./diverge.ts";
import { commonPoint } from "./lineage.ts";

const began: DivergingSide["began"] = { workflow: "impl", work: { kind: "task", text: "t" }, files: ["c", "f"] };
const steps = (run: string, ...names: readonly string[]): DivergingSide["steps"] =>
  names.map((name, at) => ({ run, entry: at + 1, name: name.split("=")[0] ?? "", digest: name }));

test("a fork diverged from its parent at the checkpoint that it was forked from", () => {
  const parent = { lineage: [{ run: "a", sequence: 9 }], steps: steps("a", "plan", "edit=1", "test=1"), began };
  const fork = {
    lineage: [
      { run: "b", sequence: 2 },
      { run: "a", sequence: 4 },
    ],
    steps: [...steps("a", "plan"), ...steps("b", "edit=2")],
    began: { ...began, work: { kind: "none" } as const },
  };
  expect(findDivergence(parent, fork)).toMatchObject({
    common: { run: "a", sequence: 4 },
    beginning: "checkpoint",
    first: { shared: 1, kind: "result", a: { run: "a", name: "edit" }, b: { run: "b", name: "edit" } },
  });
});

test.each<[string, Partial<DivergingSide["began"]>]>([
  ["another workflow", { workflow: "crunch" }],
  ["other files", { files: ["d", "g"] }],
  ["no files", { files: [] }],
])("strangers begun with %s have no common beginning, whatever came out the same", (_name, other) => {
  const a = { lineage: [{ run: "a", sequence: 1 }], steps: steps("a", "plan", "edit=1"), began };
  const b = { lineage: [{ run: "b", sequence: 1 }], steps: steps("b", "plan", "ask"), began: { ...began, ...other } };
  const first = { shared: 0, kind: "result", a: { name: "plan" }, b: { name: "plan" } };
  expect(findDivergence(a, b)).toMatchObject({ common: null, beginning: "none", first });
});

test("two issues are two beginnings; one issue, or a task in other words, is one", () => {
  const of = (work: DivergingSide["began"]["work"]): DivergingSide => ({
    lineage: [],
    steps: steps("a", "plan"),
    began: { ...began, work },
  });
  const beginning = (a: DivergingSide["began"]["work"], b: DivergingSide["began"]["work"]): string =>
    findDivergence(of(a), of(b)).beginning;
  expect(beginning({ kind: "issue", number: 1 }, { kind: "issue", number: 2 })).toBe("none");
  expect(beginning({ kind: "issue", number: 1 }, { kind: "issue", number: 1 })).toBe("alike");
  expect(beginning({ kind: "task", text: "a" }, { kind: "task", text: "b" })).toBe("alike");
});

test("strangers that began alike diverge at the first step of another name, or where one of them stopped", () => {
  const a = { lineage: [{ run: "a", sequence: 1 }], steps: steps("a", "plan", "edit=1"), began };
  const b = { lineage: [{ run: "b", sequence: 1 }], steps: steps("b", "plan", "ask"), began };
  expect(findDivergence(a, b)).toMatchObject({ common: null, beginning: "alike", first: { shared: 1, kind: "step" } });
  // Of a run that is at its very beginning, no commit may be known yet.
  expect(findDivergence(a, { ...b, began: { ...began, files: ["f"] } }).beginning).toBe("alike");
  expect(findDivergence(a, { ...b, steps: steps("b", "plan") }).first).toMatchObject({ kind: "length", b: null });
});

test("two forks of forks meet in the nearest run that both come from", () => {
  const lineage = (...points: readonly string[]) =>
    points.map((point) => ({ run: point.slice(0, 1), sequence: Number(point.slice(1)) }));
  expect(commonPoint([lineage("d3", "b5", "a2"), lineage("c1", "b7", "a2")])).toEqual({ run: "b", sequence: 5 });
  expect(commonPoint([lineage("d3", "b5", "a2"), lineage("c1", "a8"), lineage("a4")])).toEqual({
    run: "a",
    sequence: 2,
  });
  expect(commonPoint([lineage("a1"), lineage("b1")])).toBeNull();
});

/** Any tree of forks: each run comes from an earlier one, at some checkpoint. */
const forest = fc
  .array(
    fc.record({
      parent: fc.nat(),
      at: fc.integer({ min: 1, max: 9 }),
      newest: fc.integer({ min: 1, max: 9 }),
      root: fc.boolean(),
    }),
    {
      minLength: 2,
      maxLength: 8,
    },
  )
  .map((runs) => {
    const born: { readonly run: string; readonly newest: number; readonly before: DivergingSide["lineage"] }[] = [];
    for (const [at, { parent, at: sequence, newest, root }] of runs.entries()) {
      const from = root || at === 0 ? undefined : born[parent % at];
      const before = from === undefined ? [] : [{ run: from.run, sequence }, ...from.before];
      born.push({ run: `r${at}`, newest, before });
    }
    return born.map(({ run, newest, before }) => [{ run, sequence: newest }, ...before]);
  });
const history = fc.array(fc.constantFrom("plan", "edit=1", "edit=2", "test=1"), { maxLength: 6 });

const turned = ({ first, ...rest }: Divergence): Divergence => ({
  ...rest,
  first: first === null ? null : { ...first, a: first.b, b: first.a },
});

test("compared with itself a run has no difference; swapped sides swap the answer; the order of runs does not matter", () => {
  fc.assert(
    fc.property(forest, history, history, fc.nat(), (lineages, one, other, seed) => {
      const [first = [], second = []] = lineages;
      const a = { lineage: first, steps: steps("a", ...one), began };
      const b = { lineage: second, steps: steps("b", ...other), began };
      expect(findDivergence(a, a)).toEqual({ common: first[0], beginning: "checkpoint", first: null });
      expect(findDivergence(b, a)).toEqual(turned(findDivergence(a, b)));
      const shuffled = [
        ...lineages.slice(seed % lineages.length),
        ...lineages.slice(0, seed % lineages.length),
      ].toReversed();
      expect(commonPoint(shuffled)).toEqual(commonPoint(lineages));
    }),
  );
});

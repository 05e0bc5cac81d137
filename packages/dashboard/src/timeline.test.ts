import fc from "fast-check";
import { expect, test } from "vitest";
import type { Mark, Span } from "./api.ts";
import {
  WHOLE,
  axisOf,
  barsOf,
  costByStage,
  curvePoints,
  lanesOf,
  leftByRestores,
  lengthOf,
  stagger,
  storyOf,
  zoom,
  zoomAxis,
} from "./timeline.ts";

const at = (seconds: number): string => new Date(Date.UTC(2026, 10, 18) + seconds * 1000).toISOString();
const time = (seconds: number): number => Date.parse(at(seconds));
const span = (id: string, more: Partial<Span> = {}): Span => ({
  id,
  parent: null,
  kind: "stage",
  name: "impl",
  text: `${id} done`,
  iteration: 1,
  attempt: 1,
  startedAt: at(0),
  endedAt: at(10),
  result: "done",
  score: null,
  spent: null,
  entries: [1, 2],
  ...more,
});

test("hours of waiting become a narrow band, and the work gets the room", () => {
  const axis = axisOf(
    { from: at(0), to: at(12_000), gaps: [{ from: at(400), to: at(11_600), reason: "waiting for quota" }] },
    time(12_000),
  );
  expect(axis.segments.map(({ kind, text }) => `${kind} ${text}`.trim())).toEqual([
    "work",
    "gap 3 h 7 m waiting for quota",
    "work",
  ]);
  expect(axis.x(at(400))).toBeCloseTo(46.5);
  expect(axis.x(at(11_600))).toBeCloseTo(53.5);
  expect(axis.x(at(12_000))).toBe(100);
});

test("many narrow spans share bars, which the zoom takes apart", () => {
  const end = time(10_000);
  const spans = Array.from({ length: 5000 }, (_, index) =>
    span(`impl-${index}`, {
      startedAt: at(index * 2),
      endedAt: at(index * 2 + 2),
      result: index % 2 === 0 ? "done" : "failed",
    }),
  );
  const axis = axisOf({ from: at(0), to: at(10_000), gaps: [] }, end);
  const bars = barsOf(spans, axis, end);
  expect(bars.length).toBeLessThanOrEqual(410);
  expect(bars.reduce((sum, { count }) => sum + count, 0)).toBe(5000);
  for (const { span: first, x0, x1 } of bars) {
    expect(x0).toBe(axis.x(first.startedAt));
    expect(x1).toBeGreaterThan(x0);
    expect(x1 - x0).toBeLessThanOrEqual(0.5);
  }
  const near = barsOf(spans, zoomAxis(axis, { from: 50, to: 51 }), end);
  expect(near.every(({ count }) => count === 1)).toBe(true);
  expect(near.length).toBeLessThan(60);
  // A long span keeps its own bar, and one that is not over reaches until now.
  const two = barsOf([span("one"), span("two", { startedAt: at(20), endedAt: null })], axis, end);
  expect(two.map(({ count, span: { id } }) => [count, id])).toEqual([
    [1, "one"],
    [1, "two"],
  ]);
  expect(two[1]?.x1).toBeCloseTo(100);
});

test("a short pause stays as long as it was", () => {
  const axis = axisOf({ from: at(0), to: at(100), gaps: [{ from: at(50), to: at(52), reason: "x" }] }, time(100));
  expect(axis.segments.map(({ kind }) => kind)).toEqual(["work"]);
  expect(axis.x(at(50))).toBe(50);
});

test("the axis runs from 0 to 100 and never backwards, whatever the gaps are", () => {
  const moment = fc.integer({ min: -500, max: 5000 });
  fc.assert(
    fc.property(fc.array(fc.tuple(moment, moment), { maxLength: 8 }), fc.array(moment), (pairs, moments) => {
      const gaps = pairs.map(([from, to]) => ({ from: at(from), to: at(to), reason: "idle" }));
      const axis = axisOf({ from: at(0), to: at(3600), gaps }, time(3600));
      const places = moments.toSorted((a, b) => a - b).map((one) => axis.x(at(one)));
      expect(places.every((x) => x >= 0 && x <= 100.0001)).toBe(true);
      expect(places).toEqual(places.toSorted((a, b) => a - b));
      expect(axis.segments.at(-1)?.x1).toBeCloseTo(100);
      expect(axis.ticks.length).toBeLessThanOrEqual(20);
    }),
  );
});

test("a run that has just begun has an axis", () => {
  expect(axisOf({ from: at(0), to: at(0), gaps: [] }, 0).x(at(0))).toBe(0);
});

test("steps belong to the lane of their stage, and waits have none", () => {
  const lanes = lanesOf([
    span("a"),
    span("b", { parent: "a", kind: "agent" }),
    span("c", { parent: "b", kind: "effect" }),
    span("w", { kind: "wait" }),
  ]);
  expect(lanes.map(({ title, parts }) => [title, parts.map(({ id }) => id)])).toEqual([["impl #1", ["b", "c"]]]);
});

test("980 rounds share a lane for each stage", () => {
  const spans = Array.from({ length: 980 }, (_, n) =>
    span(`s${n}`, { name: n % 2 === 0 ? "impl" : "review", iteration: n }),
  );
  expect(lanesOf(spans).map(({ title, spans: own }) => [title, own.length])).toEqual([
    ["impl ×490", 490],
    ["review ×490", 490],
  ]);
});

test("the story has every stage, mark and gap in the order of time", () => {
  const mark = (kind: Mark["kind"], seconds: number): Mark => ({
    kind,
    at: at(seconds),
    entry: 1,
    sequence: 1,
    text: kind,
  });
  const story = storyOf({
    spans: [
      span("b", { startedAt: at(30), endedAt: at(40) }),
      span("c", { startedAt: at(40), endedAt: null }),
      span("a"),
      span("x", { parent: "a" }),
    ],
    marks: [mark("tag", 41), mark("checkpoint", 10), mark("crash", 5)],
    gaps: [{ from: at(11), to: at(29), reason: "waiting for quota" }],
  });
  // The end of a stage comes after what happened in it.
  expect(story.map(({ at: when, text }) => `${(Date.parse(when) - time(0)) / 1000} ${text}`)).toEqual([
    "5 crash",
    "10 a done",
    "10 checkpoint",
    "11 18 s waiting for quota",
    "40 b done",
    "40 c done",
    "41 tag",
  ]);
  // The time after a crash begins with the crash.
  const crashed = storyOf({ spans: [], marks: [mark("crash", 5)], gaps: [{ from: at(5), to: at(9), reason: "idle" }] });
  expect(crashed.map(({ text }) => text)).toEqual(["crash", "4.0 s idle"]);
});

test("a stage that waited took only the time in which a process worked", () => {
  const gaps = [
    { from: at(-5), to: at(2), reason: "idle" },
    { from: at(4), to: at(7), reason: "waiting for quota" },
    { from: at(6), to: at(8), reason: "idle" },
  ];
  expect(lengthOf(span("a"), gaps, time(10))).toBe(4000);
  expect(lengthOf(span("open", { endedAt: null }), gaps, time(20))).toBe(14_000);
  expect(lengthOf(span("wait", { kind: "wait" }), gaps, time(10))).toBe(10_000);
  expect(costByStage({ spans: [span("a")], gaps }, time(10))).toMatchObject([{ name: "impl", milliseconds: 4000 }]);
});

test("a curve goes up in steps to the end of the axis", () => {
  const axis = axisOf({ from: at(0), to: at(100), gaps: [] }, time(100));
  expect(
    curvePoints(axis, [
      { at: at(0), value: 0 },
      { at: at(50), value: 10 },
    ]),
  ).toBe("0,96 500,96 500,4 1000,4");
});

test("labels of one row do not touch, and the last one is in the first row", () => {
  expect(stagger([0, 1, 2, 50, 51], 2, 2)).toEqual([0, 1, 0, 1, 0]);
  expect(stagger([0, 0, 0], 2, 2)).toEqual([null, 1, 0]);
});

test("work between two gaps has the time of its start", () => {
  const gaps = [
    { from: at(2), to: at(50), reason: "idle" },
    { from: at(52), to: at(100), reason: "idle" },
  ];
  const axis = axisOf({ from: at(0), to: at(130), gaps }, time(130));
  const starts = axis.segments.filter(({ kind }) => kind === "work").map(({ x0 }) => x0);
  for (const x of starts) expect(axis.ticks.some((tick) => Math.abs(tick.x - x) < 7)).toBe(true);
});

test("costs are summed by stage, and an unknown price stays unknown", () => {
  const spent = { microUsd: 10, tokens: null, milliseconds: null };
  const spans = [span("a", { spent }), span("b", { spent, name: "review" }), span("c", { spent })];
  expect(costByStage({ spans, gaps: [] }, time(10))).toEqual([
    { name: "impl", times: 2, microUsd: 20, tokens: null, milliseconds: 20_000 },
    { name: "review", times: 1, microUsd: 10, tokens: null, milliseconds: 10_000 },
  ]);
});

test("zooming keeps what is under the pointer in its place, and ends at the whole axis", () => {
  const axis = axisOf({ from: at(0), to: at(100), gaps: [] }, time(100));
  const view = zoom(WHOLE, 0.5, 0.25);
  expect(view).toEqual({ from: 12.5, to: 62.5 });
  const near = zoomAxis(axis, view);
  expect(near.x(at(25))).toBe(25);
  expect(near.x(at(0))).toBe(-25);
  expect(near.ticks.every(({ x }) => x >= 0 && x <= 100)).toBe(true);
  expect(zoom(view, 2, 0.9)).toEqual(WHOLE);
  expect(zoomAxis(axis, WHOLE)).toBe(axis);
});

test("any number of zooms stays on the axis", () => {
  const step = fc.tuple(fc.double({ min: 0.1, max: 8, noNaN: true }), fc.double({ min: 0, max: 1, noNaN: true }));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const { from, to } = steps.reduce((view, [factor, place]) => zoom(view, factor, place), WHOLE);
      expect(from).toBeGreaterThanOrEqual(0);
      expect(to).toBeLessThanOrEqual(100 + 1e-9);
      expect(to - from).toBeGreaterThanOrEqual(1 - 1e-9);
    }),
  );
});

test("a restore leaves the time since its checkpoint, and its undo brings that time back", () => {
  const mark = (entry: number, kind: Mark["kind"], sequence: number): Mark => ({
    kind,
    at: at(entry),
    entry,
    sequence,
    text: "",
  });
  const before = [mark(1, "checkpoint", 1), mark(2, "checkpoint", 2), mark(3, "checkpoint", 3)];
  const restored = [...before, mark(4, "restore", 1)];
  expect(leftByRestores(before)).toEqual([]);
  expect(leftByRestores(restored)).toEqual([{ from: at(1), to: at(4) }]);
  expect(leftByRestores([...restored, mark(5, "checkpoint", 4), mark(6, "restore", 3)])).toEqual([
    { from: at(3), to: at(6) },
  ]);
});

// Where things are on the timeline: an axis that folds idle time, lanes of spans, and the story in sentences. Pure.
import type { Mark, Span, Timeline } from "./api.ts";
import { clock, duration, stageWord } from "./words.ts";

interface Segment {
  readonly kind: "work" | "gap";
  readonly from: number;
  readonly to: number;
  /** From 0 to 100. */
  readonly x0: number;
  readonly x1: number;
  readonly text: string;
}

export interface Axis {
  readonly segments: readonly Segment[];
  readonly ticks: readonly { readonly x: number; readonly text: string }[];
  /** The place of a moment, from 0 to 100. */
  readonly x: (at: string | number) => number;
}

/** A gap is folded if it is longer than this part of the work. */
const FOLD_FROM = 0.05;
/** The width of one folded gap, and of all of them. */
const GAP_WIDTH = 7;
const GAPS_WIDTH = 35;

export function axisOf(timeline: Pick<Timeline, "from" | "to" | "gaps">, end: number): Axis {
  const from = Date.parse(timeline.from);
  const to = Math.max(Date.parse(timeline.to), end, from + 1);
  const gaps = mergeGaps(timeline.gaps, from, to);
  const idle = gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  const work = to - from - idle;
  // Without any work there is nothing to make room for.
  const folded = work <= 0 ? [] : gaps.filter((gap) => gap.to - gap.from > work * FOLD_FROM);
  const gapWidth = folded.length === 0 ? 0 : Math.min(GAP_WIDTH, GAPS_WIDTH / folded.length);
  const shown = to - from - folded.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  const scale = (100 - gapWidth * folded.length) / Math.max(1, shown);
  const segments: Segment[] = [];
  let at = from;
  let x = 0;
  const add = (kind: Segment["kind"], until: number, width: number, text: string): void => {
    segments.push({ kind, from: at, to: until, x0: x, x1: x + width, text });
    at = until;
    x += width;
  };
  for (const gap of folded) {
    if (gap.from > at) add("work", gap.from, (gap.from - at) * scale, "");
    add("gap", gap.to, gapWidth, `${duration(gap.to - gap.from)} ${gap.reason}`);
  }
  if (to > at) add("work", to, (to - at) * scale, "");
  const place = (moment: string | number): number => placeOn(segments, moment);
  return { segments, ticks: ticksOf(segments, shown), x: place };
}

/** The part of the axis that is shown, from 0 to 100. */
export interface View {
  readonly from: number;
  readonly to: number;
}
export const WHOLE: View = { from: 0, to: 100 };
/** The narrowest part. */
const NARROWEST = 1;

/** Another part of the axis: `factor` times as wide, with `at` (from 0 to 1) in the same place. */
export function zoom({ from, to }: View, factor: number, at: number): View {
  const width = Math.min(100, Math.max(NARROWEST, (to - from) * factor));
  const start = Math.min(100 - width, Math.max(0, from + (to - from - width) * at));
  return { from: start, to: start + width };
}

/** The axis with a part of it spread over the whole width. */
export function zoomAxis(axis: Axis, { from, to }: View): Axis {
  if (from === 0 && to === 100) return axis;
  const place = (x: number): number => ((x - from) / (to - from)) * 100;
  const segments = axis.segments
    .filter(({ x0, x1 }) => x1 > from && x0 < to)
    .map((segment) => ({ ...segment, x0: place(segment.x0), x1: place(segment.x1) }));
  const shown = segments
    .filter(({ kind }) => kind === "work")
    .reduce((sum, { from: start, to: end, x0, x1 }) => {
      const visible = Math.min(100, x1) - Math.max(0, x0);
      return sum + ((end - start) * visible) / Math.max(x1 - x0, 1e-9);
    }, 0);
  return { segments, ticks: ticksOf(segments, shown), x: (at) => place(axis.x(at)) };
}

/** Time that restores left, as it counts after all of them: a restore of a state saved before a restore brings the time back. */
export function leftByRestores(marks: readonly Mark[]): readonly { readonly from: string; readonly to: string }[] {
  let left: readonly { readonly from: string; readonly to: string }[] = [];
  const saved = new Map<number, { readonly at: string; readonly left: typeof left }>();
  for (const { kind, at, sequence } of marks.toSorted((a, b) => a.entry - b.entry)) {
    if (sequence === null) continue;
    if (kind === "checkpoint") saved.set(sequence, { at, left });
    const target = kind === "restore" ? saved.get(sequence) : undefined;
    if (target !== undefined) left = [...target.left, { from: target.at, to: at }];
  }
  return left;
}

function placeOn(segments: readonly Segment[], moment: string | number): number {
  const time = typeof moment === "number" ? moment : Date.parse(moment);
  const segment = segments.find((one) => time <= one.to) ?? segments.at(-1);
  if (segment === undefined || Number.isNaN(time)) return 0;
  const part = (time - segment.from) / Math.max(1, segment.to - segment.from);
  return segment.x0 + Math.min(1, Math.max(0, part)) * (segment.x1 - segment.x0);
}

/** In order, inside the axis, and without overlaps. */
function mergeGaps(
  gaps: Timeline["gaps"],
  from: number,
  to: number,
): readonly { readonly from: number; readonly to: number; readonly reason: string }[] {
  const merged: { from: number; to: number; reason: string }[] = [];
  const given = gaps
    .map((gap) => ({
      from: Math.max(from, Date.parse(gap.from)),
      to: Math.min(to, Date.parse(gap.to)),
      reason: gap.reason,
    }))
    .filter((gap) => gap.to > gap.from)
    .toSorted((a, b) => a.from - b.from);
  for (const gap of given) {
    const last = merged.at(-1);
    if (last !== undefined && gap.from <= last.to) last.to = Math.max(last.to, gap.to);
    else merged.push({ ...gap });
  }
  return merged;
}

const SECOND = 1000;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400].map(
  (seconds) => seconds * SECOND,
);
const MOST_TICKS = 7;
const LEAST_DISTANCE = 6;

function ticksOf(segments: readonly Segment[], shown: number): Axis["ticks"] {
  const step = STEPS.find((one) => shown / one <= MOST_TICKS) ?? 86_400 * SECOND;
  const ticks: { readonly x: number; readonly text: string }[] = [];
  for (const segment of segments.filter(({ kind }) => kind === "work")) {
    for (let at = Math.ceil(segment.from / step) * step; at <= segment.to; at += step) {
      const x = placeOn([segment], at);
      const before = ticks.at(-1)?.x ?? Number.NEGATIVE_INFINITY;
      if (x - before < LEAST_DISTANCE || x < 0 || x > 97) continue;
      ticks.push({ x, text: clock(new Date(at).toISOString(), step < 60 * SECOND) });
    }
    // Work between two gaps can be shorter than a step.
    const start = Math.max(0, segment.x0);
    const isFree = ticks.every(({ x }) => Math.abs(x - start) >= LEAST_DISTANCE);
    if (isFree && segment.x0 >= 0 && start <= 97)
      ticks.push({ x: start, text: clock(new Date(segment.from).toISOString(), step < 60 * SECOND) });
    ticks.sort((a, b) => a.x - b.x);
  }
  return ticks;
}

/** How long a span took, or takes until now. Of work, the time in which no process worked does not count. */
export function lengthOf({ kind, startedAt, endedAt }: Span, gaps: Timeline["gaps"], end: number): number {
  const [from, to] = [Date.parse(startedAt), endedAt === null ? end : Date.parse(endedAt)];
  const idle = kind === "wait" ? [] : mergeGaps(gaps, from, to);
  return Math.max(0, to - from - idle.reduce((sum, gap) => sum + gap.to - gap.from, 0));
}

/** When the last work of a run ended. A tag or an answer that came later does not stretch the axis. */
export function workEnd({ spans, marks, from }: Pick<Timeline, "spans" | "marks" | "from">): number {
  const ends = spans.flatMap(({ startedAt, endedAt }) => [startedAt, endedAt ?? startedAt]);
  const saves = marks.filter(({ kind }) => kind === "checkpoint" || kind === "crash").map(({ at }) => at);
  return [...ends, ...saves].reduce((latest, at) => Math.max(latest, Date.parse(at)), Date.parse(from) + 1);
}

/** A row of the timeline: one execution of a stage, or all of them when there are many. */
export interface Lane {
  readonly id: string;
  readonly title: string;
  /** The spans of the row itself. */
  readonly spans: readonly Span[];
  /** Steps, agent calls, checks and effects inside it. */
  readonly parts: readonly Span[];
}

/** With more rows than this, the executions of a stage share a row. */
const MOST_LANES = 12;

export function lanesOf(spans: readonly Span[]): readonly Lane[] {
  const top = spans.filter((span) => span.parent === null && span.kind !== "wait");
  const parts = Map.groupBy(spans, (span) => rootOf(span, spans));
  const partsOf = (span: Span): readonly Span[] => (parts.get(span.id) ?? []).filter((one) => one.kind !== "wait");
  const single = top.map((span) => ({ id: span.id, title: titleOf(span), spans: [span], parts: partsOf(span) }));
  if (single.length <= MOST_LANES) return single;
  return [...Map.groupBy(top, (span) => span.name)].map(([name, group]) => ({
    id: name,
    title: group.length === 1 ? name : `${name} ×${group.length}`,
    spans: group,
    parts: group.flatMap(partsOf),
  }));
}

/** What a row draws: one span, or several that are too narrow to distinguish. */
export interface Bar {
  readonly span: Span;
  readonly count: number;
  /** From 0 to 100. */
  readonly x0: number;
  readonly x1: number;
}

/** Spans with one result that fit into this width share a bar. */
const NARROW = 0.5;

/** The bars on the part of the axis that is shown. Their number has a limit, whatever the number of spans. */
export function barsOf(spans: readonly Span[], axis: Axis, end: number): readonly Bar[] {
  const bars: Bar[] = [];
  const newest = new Map<Span["result"], number>();
  for (const span of spans) {
    const [x0, x1] = [axis.x(span.startedAt), axis.x(span.endedAt ?? end)];
    if (x1 < 0 || x0 > 100) continue;
    const at = newest.get(span.result);
    const before = at === undefined ? undefined : bars[at];
    if (at !== undefined && before !== undefined && x0 >= before.x0 && x1 - before.x0 <= NARROW)
      bars[at] = { ...before, count: before.count + 1, x1: Math.max(before.x1, x1) };
    else newest.set(span.result, bars.push({ span, count: 1, x0, x1 }) - 1);
  }
  return bars;
}

function titleOf({ name, iteration, attempt }: Span): string {
  return `${stageWord(name, iteration)}${attempt > 1 ? ` attempt ${attempt}` : ""}`;
}

const ROOTS = new WeakMap<readonly Span[], ReadonlyMap<string, Span>>();
function rootOf(span: Span, spans: readonly Span[]): string | null {
  const byId = ROOTS.get(spans) ?? new Map(spans.map((one) => [one.id, one]));
  ROOTS.set(spans, byId);
  if (span.parent === null) return null;
  let current: Span = span;
  // A chain is never longer than the number of spans.
  for (let steps = 0; current.parent !== null && steps < 20; steps += 1) {
    const parent = byId.get(current.parent);
    if (parent === undefined) break;
    current = parent;
  }
  return current.id;
}

/** One sentence of the story, in the order of time. */
export interface StoryItem {
  readonly key: string;
  readonly at: string;
  readonly text: string;
  readonly kind: Mark["kind"] | "stage" | "wait";
  readonly result: Span["result"] | null;
  readonly sequence: number | null;
  readonly span: Span | null;
}

export function storyOf({ spans, marks, gaps }: Pick<Timeline, "spans" | "marks" | "gaps">): readonly StoryItem[] {
  const stages = spans
    .filter((span) => span.parent === null)
    .map((span): StoryItem => ({
      key: span.id,
      // The sentence says how the stage ended.
      at: span.kind === "wait" ? span.startedAt : (span.endedAt ?? span.startedAt),
      text: span.text,
      kind: span.kind === "wait" ? "wait" : "stage",
      result: span.result,
      sequence: null,
      span,
    }));
  const waits = gaps
    .filter(
      (gap) =>
        !stages.some(({ kind, at }) => kind === "wait" && Math.abs(Date.parse(at) - Date.parse(gap.from)) < SECOND),
    )
    .map((gap): StoryItem => ({
      key: `gap ${gap.from}`,
      at: gap.from,
      text: `${duration(Date.parse(gap.to) - Date.parse(gap.from))} ${gap.reason}`,
      kind: "wait",
      result: null,
      sequence: null,
      span: null,
    }));
  const points = marks.map((mark, index): StoryItem => ({
    key: `mark ${index}`,
    at: mark.at,
    text: mark.text,
    kind: mark.kind,
    result: null,
    sequence: mark.sequence,
    span: null,
  }));
  // At one moment, what happened comes before the wait that it began.
  return [...stages, ...points, ...waits].toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at));
}

/** The points of a step curve in a box of 1000 by 100, with the highest value at the top. */
export function curvePoints(axis: Axis, points: readonly { readonly at: string; readonly value: number }[]): string {
  const highest = Math.max(...points.map(({ value }) => value), Number.MIN_VALUE);
  const y = (value: number): number => Math.round((96 - (value / highest) * 92) * 10) / 10;
  const corners: string[] = [];
  let before: number | null = null;
  for (const { at, value } of points) {
    const x = Math.round(axis.x(at) * 100) / 10;
    if (before !== null) corners.push(`${x},${before}`);
    before = y(value);
    corners.push(`${x},${before}`);
  }
  if (before !== null) corners.push(`1000,${before}`);
  return corners.join(" ");
}

/**
 * Rows for places on the axis, so that those of one row do not touch: as few rows as possible, the last place in the first one. Null: there is no
 * room in any of the rows.
 */
export function stagger(places: readonly number[], distance: number, rows: number): readonly (number | null)[] {
  const ends = Array.from({ length: rows }, () => Number.POSITIVE_INFINITY);
  return places
    .toReversed()
    .map((x) => {
      const row = ends.findIndex((end) => end - x >= distance);
      if (row !== -1) ends[row] = x;
      return row === -1 ? null : row;
    })
    .toReversed();
}

export interface StageCost {
  readonly name: string;
  readonly times: number;
  readonly microUsd: number | null;
  readonly tokens: number | null;
  readonly milliseconds: number;
}

/** What each stage cost over all its executions, the most expensive first. */
export function costByStage({ spans, gaps }: Pick<Timeline, "spans" | "gaps">, end: number): readonly StageCost[] {
  const top = spans.filter(({ parent, kind }) => parent === null && kind !== "wait");
  const sum = (values: readonly (number | null)[]): number | null => {
    const known = values.filter((value) => value !== null);
    return known.length === 0 ? null : known.reduce((total, value) => total + value, 0);
  };
  return [...Map.groupBy(top, ({ name }) => name)]
    .map(([name, group]) => ({
      name,
      times: group.length,
      microUsd: sum(group.map(({ spent }) => spent?.microUsd ?? null)),
      tokens: sum(group.map(({ spent }) => spent?.tokens ?? null)),
      milliseconds: group.reduce((total, span) => total + lengthOf(span, gaps, end), 0),
    }))
    .toSorted((a, b) => (b.microUsd ?? 0) - (a.microUsd ?? 0) || b.milliseconds - a.milliseconds);
}

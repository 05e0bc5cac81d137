import fc from "fast-check";
import { expect, test } from "vitest";
import type { Graph, NodeStatus } from "../../core/graph/graph.ts";
import { pictureGraph } from "../../core/graph/graph-picture.ts";
import { sampleGraph, sampleNode } from "../../core/graph/graph-sample.ts";
import { displayWidth } from "./display-width.ts";
import { compactGraphLines, graphLines } from "./graph-lines.ts";

const T0 = Date.parse("2026-11-15T12:00:00.000Z");
const at = (minutes: number): string => new Date(T0 + minutes * 60_000).toISOString();
const LIVE = { live: true, now: T0 + 12 * 60_000, seenAt: at(11) };
const PAGE = { width: 80, color: false };
const SPENT = { tokens: 1000, microUsd: 1_250_000, milliseconds: 1000 };

type Row = readonly [id: string, dependencies: readonly string[], status: NodeStatus, from?: number, to?: number];

function graphOf(rows: readonly Row[]): Graph {
  return {
    ...sampleGraph(rows.map(([id, dependencies]) => sampleNode(id, dependencies))),
    id: "implementing",
    states: Object.fromEntries(
      rows.map(([id, , status, from, to]) => [
        id,
        {
          status,
          attempt: from === undefined ? 0 : 1,
          startedAt: from === undefined ? null : at(from),
          endedAt: to === undefined ? null : at(to),
          result: status === "failed" ? { error: "column email is used\nby an index" } : null,
        },
      ]),
    ),
  };
}

const twelve = graphOf([
  ["brief", [], "complete", 0, 0.5],
  ["spec", [], "complete", 0, 4],
  ["threats", [], "complete", 0, 3],
  ["api-design", ["spec", "brief"], "complete", 4, 9],
  ["db-schema", ["spec"], "complete", 4, 6],
  ["review-threats", ["threats"], "complete", 4, 8],
  ["implement-api", ["api-design", "db-schema"], "running", 9],
  ["implement-frontend-pages", ["api-design"], "running", 9.5],
  ["migrations", ["db-schema"], "failed", 6, 7],
  ["unit-tests", ["implement-api", "migrations"], "skipped"],
  ["e2e-tests", ["implement-api", "implement-frontend-pages"], "pending"],
  ["docs", ["unit-tests", "e2e-tests"], "skipped"],
]);

function draw(graph: Graph, page: { readonly width: number; readonly ascii?: true }, moment = LIVE): string {
  return graphLines(pictureGraph(graph, moment), { color: false, ...page }, SPENT).join("\n");
}

test("twelve nodes, 80 columns", () => {
  expect(draw(twelve, PAGE)).toMatchInlineSnapshot(`
    "implementing: 6 of 12 complete, 2 running, 1 failed, 2 skipped, 1 pending
    12 min so far, $1.25
    * critical path 14 min: spec → api-design → implement-api → e2e-tests

    batch 1           batch 2           batch 3             batch 4        batch 5
    ✓ brief           ✓ api-design *    ▸ implement-api *   – unit-tests   – docs
      complete 30 s     complete 5 min    running 3 min       skipped        skipped
    ✓ spec *          ✓ db-schema       ▸ implement-front…  · e2e-tests *
      complete 4 min    complete 2 min    running 2 min       pending
    ✓ threats         ✓ review-threats  ✗ migrations
      complete 3 min    complete 4 min    failed 1 min

    ✗ migrations failed: column email is used; by an index"
  `);
});

test("twelve nodes of a run that died, in ASCII, 40 columns", () => {
  const drawn = draw(twelve, { width: 40, ascii: true }, { ...LIVE, live: false });
  expect(drawn).toMatch(/^[\n -~]*$/);
  expect(drawn).toMatchInlineSnapshot(`
    "implementing: 6 of 12 complete, 2
    interrupted, 1 failed, 2 skipped, 1
    pending
    11 min up to the last sign of life,
    $1.25
    * critical path 13 min: spec > api-des..

    batch 1           batch 2
    + brief           + api-design *
      complete 30 s     complete 5 min
    + spec *          + db-schema
      complete 4 min    complete 2 min
    + threats         + review-threats
      complete 3 min    complete 4 min

    batch 3                    batch 4
    ! implement-api *          - unit-tests
      interrupted >= 2 min       skipped
    ! implement-frontend-pa..  . e2e-tests *
      interrupted >= 1 min       pending
    x migrations
      failed 1 min

    batch 5
    - docs
      skipped

    x migrations failed: column email is u..
    ! interrupted, nobody runs them now: i..
    goes on with implement-api"
  `);
});

function layered(count: number, wide: number, status: (index: number) => NodeStatus): Graph {
  return graphOf(
    Array.from({ length: count }, (_, i): Row => {
      const now = status(i);
      const before = i < wide ? [] : [`task-${i - wide}`];
      if (now === "pending") return [`task-${i}`, before, now];
      return now === "running" ? [`task-${i}`, before, now, 1] : [`task-${i}`, before, now, 1, 2];
    }),
  );
}

test("two hundred are summed up, a line a batch", () => {
  const graph = layered(200, 20, (i) => (i < 83 ? "complete" : i < 87 ? "running" : "pending"));
  expect(draw(graph, PAGE)).toMatchInlineSnapshot(`
    "implementing: 83 of 200 complete, 4 running, 113 pending
    11 min so far, $1.25
    * critical path 22 min: task-3 → task-23 → task-43 → task-63 → task-83 → task-1…

    batch 1   ██████████  20 of 20 complete
    batch 2   ██████████  20 of 20 complete
    batch 3   ██████████  20 of 20 complete
    batch 4   ██████████  20 of 20 complete
    batch 5   █░░░░░░░░░  3 of 20 complete, 4 running, 13 pending  ▸ task-83 11 min
    batch 6   ░░░░░░░░░░  0 of 20 complete, 20 pending
    batch 7   ░░░░░░░░░░  0 of 20 complete, 20 pending
    batch 8   ░░░░░░░░░░  0 of 20 complete, 20 pending
    batch 9   ░░░░░░░░░░  0 of 20 complete, 20 pending
    batch 10  ░░░░░░░░░░  0 of 20 complete, 20 pending"
  `);
});

test.each([
  ["wide", 10_000, 50],
  ["a chain", 10_000, 1],
  ["all at once", 10_000, 10_000],
])("ten thousand, %s, fit a screen", (_, count, wide) => {
  const graph = layered(count, wide, (i) => (i < 4990 ? "complete" : i < 4997 ? "running" : "pending"));
  const picture = pictureGraph(graph, LIVE);
  for (const lines of [graphLines(picture, PAGE, SPENT), compactGraphLines(picture, PAGE)]) {
    expect(lines.length).toBeLessThan(45);
    expect(countedIn(lines)).toBe(count);
    for (const line of lines) expect(displayWidth(line)).toBeLessThanOrEqual(80);
  }
  expect(compactGraphLines(picture, PAGE).length).toBeLessThanOrEqual(6);
});

/** What the lines of batches say, added up. */
function countedIn(lines: readonly string[]): number {
  return lines
    .filter((line) => line.startsWith("batch "))
    .reduce((sum, line) => sum + Number(/ (\d+) of (\d+) complete/.exec(line)?.[2] ?? Number.NaN), 0);
}

const statuses = fc.constantFrom<NodeStatus>(
  "pending",
  "queued",
  "running",
  "complete",
  "failed",
  "skipped",
  "unknown",
);
const name = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 40 }),
  fc.string({ unit: "binary", maxLength: 10 }),
  fc.constantFrom("日本語の長い名前のタスク", "👩‍👩‍👧‍👦👩‍👩‍👧‍👦", "\x1b[2J\n\r", "x".repeat(200), ""),
);
const someGraph = fc.uniqueArray(name, { minLength: 1, maxLength: 40 }).chain((ids) =>
  fc
    .array(fc.tuple(fc.array(fc.nat(), { maxLength: 2 }), statuses), { minLength: ids.length, maxLength: ids.length })
    .map((rows) =>
      graphOf(
        rows.map(([to, status], i): Row => {
          const before = i === 0 ? [] : [...new Set(to.map((one) => ids[one % i] ?? ""))];
          return [ids[i] ?? "", before, status, 1, 2];
        }),
      ),
    ),
);
const somePage = fc.record({
  width: fc.integer({ min: 12, max: 200 }),
  color: fc.boolean(),
  ascii: fc.constantFrom(undefined, true as const),
});

test("whatever the graph and the page: no line is wider, no control goes through, every node is there once", () => {
  fc.assert(
    fc.property(someGraph, somePage, fc.boolean(), (graph, { ascii, ...page }, live) => {
      const picture = pictureGraph(graph, { ...LIVE, live });
      const fitted = { ...page, ...(ascii === undefined ? {} : { ascii }) };
      const lines = graphLines(picture, fitted, SPENT).map(plain);
      for (const line of [...lines, ...compactGraphLines(picture, fitted).map(plain)]) {
        expect(displayWidth(line), line).toBeLessThanOrEqual(page.width);
        // eslint-disable-next-line no-control-regex
        expect(line).not.toMatch(/[\x00-\x1f\x7f]/);
      }
      if (page.width < 60) return;
      const body = lines.slice(lines.indexOf("") + 1);
      const states = body
        .join("\n")
        .match(/(?<=^| {2})(complete|running|interrupted|failed|unknown|skipped|queued|pending)\b/gm);
      const drawn = body.some((line) => /^batch \d+(-\d+)? .* of \d+ complete/.test(line));
      if (drawn) expect(countedIn(body)).toBe(graph.nodes.length);
      else expect(states?.length).toBeGreaterThanOrEqual(graph.nodes.length);
    }),
  );
});

test("each node has its own cell where they are drawn side by side", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 12 }),
      fc.integer({ min: 1, max: 6 }),
      fc.integer({ min: 40, max: 160 }),
      (count, wide, width) => {
        const drawn = draw(
          layered(count, wide, (i) => (i < 3 ? "complete" : "pending")),
          { width },
        );
        for (let i = 0; i < count; i += 1)
          expect(drawn.match(new RegExp(`[✓·] task-${i}(?!\\d)`, "g"))).toHaveLength(1);
      },
    ),
  );
});

function plain(line: string): string {
  // eslint-disable-next-line no-control-regex
  return line.replaceAll(/\x1b\[[0-9;]*m/g, "");
}

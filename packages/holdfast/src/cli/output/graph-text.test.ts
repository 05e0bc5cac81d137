import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Graph, GraphEdge, NodeStatus } from "@holdfast/core/graph";
import { sampleGraph, sampleNode } from "@holdfast/test-support/core/graph-sample";
import { pictureGraph } from "../../graph-view.ts";
import { compactGraphLines, graphLines, mermaidText } from "./graph-text.ts";
import { displayWidth } from "./text.ts";

describe("graph lines", () => {
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
      ! interrupted: implement-api (>= 2 min..
      continues with implement-api"
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

  test("two hundred are summarized, a line per batch", () => {
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

  /** The sum of the counts in the batch lines. */
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

  test("for any graph and page: no line is wider, no control character passes, every node appears once", () => {
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

  test("each node has its own cell if they are drawn side by side", () => {
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
});

describe("mermaid", () => {
  const AT = "2026-11-15T12:00:00.000Z";
  const MOMENT = { live: true, now: Date.parse(AT) + 90_000, seenAt: null };

  function drawn(graph: Graph, live = true): string {
    return mermaidText(graph, pictureGraph(graph, { ...MOMENT, live }));
  }

  function having(graph: Graph, states: Readonly<Record<string, NodeStatus>>): Graph {
    return {
      ...graph,
      states: Object.fromEntries(
        Object.entries(states).map(([id, status]) => [
          id,
          { status, attempt: 1, startedAt: AT, endedAt: status === "complete" ? AT : null, result: null },
        ]),
      ),
    };
  }

  test("a subgraph per batch, a class per state, a line style for each kind of edge", () => {
    const graph = sampleGraph(
      [sampleNode("spec"), sampleNode("api", ["spec"]), sampleNode("db", ["spec"]), sampleNode("tests", ["api", "db"])],
      [
        { from: "spec", to: "api", type: "data", key: "document" },
        { from: "db", to: "tests", type: "approval", by: "qa", approvedAt: null },
        { from: "api", to: "tests", type: "sequence" },
      ],
    );
    expect(drawn(having(graph, { spec: "complete", api: "running" }), false)).toMatchInlineSnapshot(`
    "flowchart LR
      subgraph b1["batch 1"]
        n1["spec<br/>dev, implement<br/>complete, 0 s"]:::complete
      end
      subgraph b2["batch 2"]
        n2["api<br/>dev, implement<br/>interrupted, at least 0 s"]:::interrupted
        n3["db<br/>dev, implement<br/>pending"]:::pending
      end
      subgraph b3["batch 3"]
        n4["tests<br/>dev, implement<br/>pending"]:::pending
      end
      n1 ==>|"data document"| n2
      n3 -.->|"needs approval of qa"| n4
      n2 -->|"sequence"| n4
      n1 --> n3
      classDef complete fill:#d3f9d8,stroke:#2b8a3e,color:#1b1b1b
      classDef interrupted fill:#fff3bf,stroke:#e67700,color:#1b1b1b,stroke-dasharray:6 3
      classDef pending fill:#ffffff,stroke:#adb5bd,color:#1b1b1b
      classDef critical stroke-width:4px
      class n1,n2,n4 critical
    "
  `);
  });

  /**
   * What Mermaid's own parser accepts is wider; this is all that is ever written. Within labels only letters, digits, a little punctuation and
   * numbered characters: nothing that could end a label, a line or a comment, and never "direction LR", which Mermaid reads inside of quotes too.
   */
  const LABEL = "(?:(?!direction )(?:[\\p{L}\\p{M}\\p{N} _.,()/-]|#\\d+;))*";
  const LINES = [
    /^flowchart LR$/,
    /^ {2}subgraph b\d+\["batch \d+"\]$/,
    new RegExp(`^ {4}n\\d+\\["${LABEL}<br/>${LABEL}<br/>${LABEL}"\\]:::[a-z]+$`, "iu"),
    /^ {2}end$/,
    new RegExp(
      `^ {2}n\\d+ (-->|-->\\|"sequence"\\||==>\\|"data ${LABEL}"\\||-\\.->\\|"[a-z ]+ ${LABEL}"\\|) n\\d+$`,
      "iu",
    ),
    /^ {2}classDef [a-z]+ [a-z:#0-9, -]+$/,
    /^ {2}class n\d+(,n\d+)* critical$/,
    /^$/,
  ];

  const nasty = fc.constantFrom(
    '"]',
    '"];\n  click n1 href "javascript:alert(1)"',
    "%%{init: {}}%%",
    "style x:#35;",
    "`md`",
    "<script>",
    "#quot;",
    "direction TB",
    "DIRECTION  LR",
    "end",
    "| x",
    "\u2028\n\r",
    "😀",
    "\ud800",
  );
  const text = fc
    .array(fc.oneof(nasty, fc.string({ unit: "binary", maxLength: 8 })), { maxLength: 4 })
    .map((parts) => parts.join(""));

  test("no id, agent, action, key or name can get out of its label", () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(text, { minLength: 1, maxLength: 8 }),
        fc.array(fc.tuple(fc.nat(), fc.nat(), text), { maxLength: 8 }),
        text,
        (ids, links, word) => {
          const edges = links.flatMap(([a, b, said], at): GraphEdge[] => {
            const ends = { from: ids[a % ids.length] ?? "", to: ids[b % ids.length] ?? "" };
            if (at % 3 === 0) return [{ ...ends, type: "data", key: said }];
            return at % 3 === 1
              ? [{ ...ends, type: "sequence" }]
              : [{ ...ends, type: "approval", by: said, approvedAt: AT }];
          });
          const lines = drawn(
            sampleGraph(
              ids.map((id) => sampleNode(id, [], { agent: word, action: word })),
              edges,
            ),
          ).split("\n");
          for (const line of lines)
            expect(
              LINES.some((shape) => shape.test(line)),
              line,
            ).toBe(true);
          expect(lines.filter((line) => /^ {4}n\d+\[/.test(line))).toHaveLength(ids.length);
          expect(lines.filter((line) => / n\d+$/.test(line))).toHaveLength(edges.length);
        },
      ),
    );
  });

  test("special characters are encoded as numbers, words stay readable", () => {
    const label = (id: string) => /n1\["(.*?)<br/u.exec(drawn(sampleGraph([sampleNode(id)])))?.[1];
    expect(label("Überprüfung (2/3), v1.0")).toBe("Überprüfung (2/3), v1.0");
    expect(label('a"b')).toBe("a#34;b");
    expect(label("a:b;c#d")).toBe("a#58;b#59;c#35;d");
    expect(label("direction TB")).toBe("directio#110; TB");
    expect(label("x".repeat(100))).toBe(`${"x".repeat(79)}#8230;`);
  });
});

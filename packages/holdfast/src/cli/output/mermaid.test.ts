import fc from "fast-check";
import { expect, test } from "vitest";
import type { Graph, GraphEdge, NodeStatus } from "../../core/graph/graph.ts";
import { pictureGraph } from "../../core/graph/graph-picture.ts";
import { sampleGraph, sampleNode } from "../../core/graph/graph-sample.ts";
import { mermaidText } from "./mermaid.ts";

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

test("a subgraph a batch, a class a state, a kind of line for each kind of edge", () => {
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

test("characters that mean something are numbered, words stay readable", () => {
  const label = (id: string) => /n1\["(.*?)<br/u.exec(drawn(sampleGraph([sampleNode(id)])))?.[1];
  expect(label("Überprüfung (2/3), v1.0")).toBe("Überprüfung (2/3), v1.0");
  expect(label('a"b')).toBe("a#34;b");
  expect(label("a:b;c#d")).toBe("a#58;b#59;c#35;d");
  expect(label("direction TB")).toBe("directio#110; TB");
  expect(label("x".repeat(100))).toBe(`${"x".repeat(79)}#8230;`);
});

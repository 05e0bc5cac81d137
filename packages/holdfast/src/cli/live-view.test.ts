import * as fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import type { ProgressEvent } from "@holdfast/core/progress";
import { sampleGraph, sampleNode } from "@holdfast/test-support/core/graph-sample";
import { type GraphPicture, pictureGraph } from "../graph-view.ts";
import { openHoldfast } from "../open.ts";
import {
  canRedraw,
  createLiveRegion,
  emptyPicture,
  eventLine,
  followGraph,
  pictureLines,
  reduceEvent,
} from "./live-view.ts";
import { clockText } from "./output/quantities.ts";
import { displayWidth } from "./output/text.ts";

describe("live", () => {
  const AT = "2026-11-15T12:00:00.000Z";
  const base = { run: "issue-42", at: AT };
  const PAGE = { color: false, offset: () => 0 };

  const STORY: readonly ProgressEvent[] = [
    { ...base, kind: "started", stage: "setup", iteration: 0, resumed: false },
    {
      ...base,
      kind: "stage_ended",
      stage: "setup",
      event: "setup_done",
      reason: "",
      next: "impl",
      iteration: 1,
      score: null,
    },
    { ...base, kind: "stage_entered", stage: "impl", iteration: 1, stageAttempt: 2 },
    { ...base, kind: "step_started", step: "agent" },
    { ...base, kind: "agent", step: "agent", event: { kind: "tool", name: "edit", detail: "src/a.ts\nmore" } },
    { ...base, kind: "step_finished", step: "agent", replayed: false },
    {
      ...base,
      kind: "stage_ended",
      stage: "impl",
      event: "impl_done",
      reason: "marker found",
      next: "review",
      iteration: 1,
      score: null,
    },
    { ...base, kind: "stage_entered", stage: "review", iteration: 1, stageAttempt: 3 },
    {
      ...base,
      kind: "stage_ended",
      stage: "review",
      event: "review_fail",
      reason: "docs 60 < 85",
      next: "impl",
      iteration: 2,
      score: 60,
    },
    { ...base, kind: "effect", key: "issue-42/pr/create.4", what: "adopted" },
  ];

  describe("the picture", () => {
    const picture = STORY.reduce(reduceEvent, emptyPicture(""));

    test("is the fold of the events", () => {
      expect(picture).toMatchObject({
        run: "issue-42",
        stage: "review",
        iteration: 2,
        scores: [60],
        last: "docs 60 < 85",
      });
    });

    test("fits any page", () => {
      expect(
        pictureLines(
          { ...picture, spent: { tokens: 120_000, microUsd: 1_250_000, milliseconds: 90_000 } },
          { width: 80, color: false, now: Date.parse(AT) + 65_000 },
        ),
      ).toMatchInlineSnapshot(`
      [
        "⠋ issue-42 · review #2 for 1 min",
        "  scores 60 ▅ · spent 120k tokens, $1.25, 90 s",
        "  docs 60 < 85",
      ]
    `);
      fc.assert(
        fc.property(
          fc.string({ unit: "grapheme" }),
          fc.array(fc.nat(100)),
          fc.integer({ min: 40, max: 120 }),
          (last, scores, width) => {
            for (const line of pictureLines({ ...picture, last, scores, run: last }, { width, color: false, now: 0 }))
              expect(displayWidth(line)).toBeLessThan(width);
          },
        ),
      );
    });

    test("with a graph: a line a batch, and what runs now", () => {
      const state = { attempt: 1, startedAt: AT, endedAt: null, result: null };
      const graph = {
        ...sampleGraph([sampleNode("spec"), sampleNode("api", ["spec"]), sampleNode("db", ["spec"])]),
        states: {
          spec: { ...state, status: "complete", endedAt: AT },
          api: { ...state, status: "running" },
          db: { ...state, status: "running" },
        },
      } as const;
      const now = Date.parse(AT) + 65_000;
      const shown = { ...picture, graph: pictureGraph(graph, { live: true, now, seenAt: AT }) };
      expect(pictureLines(shown, { width: 80, color: false, ascii: true, now })).toMatchInlineSnapshot(`
      [
        "- issue-42 · review #2 for 1 min",
        "  scores 60 ▅",
        "  batch 1  +           1 of 1 complete",
        "  batch 2  >>          0 of 2 complete, 2 running  > api 1 min  > db 1 min",
        "  docs 60 < 85",
      ]
    `);
    });

    test("as plain lines", () => {
      expect(
        STORY.map((event) => eventLine(event, PAGE))
          .filter((line) => line !== null)
          .join(""),
      ).toMatchInlineSnapshot(`
        "12:00:00  issue-42 starts in setup
        12:00:00    setup_done
        12:00:00  impl #1
        12:00:00    edit: src/a.ts
        12:00:00    marker found
        12:00:00  review #1
        12:00:00    docs 60 < 85 (score 60)
        12:00:00    create was there already, taken over
        "
      `);
    });

    test("hostile text stays in its line", () => {
      const event: ProgressEvent = { ...base, kind: "note", text: "a\x1b[2J\nb" };
      expect(eventLine(event, PAGE)).toBe("12:00:00    a\\x1b[2J; b\n");
    });

    test("the output of a command follows its note in marked lines", () => {
      const event: ProgressEvent = { ...base, kind: "note", text: "it failed", output: ["a\x1b[2J", "12:00:00  done"] };
      expect(eventLine(event, PAGE)).toBe(
        "12:00:00    it failed\n            | a\\x1b[2J\n            | 12:00:00  done\n",
      );
    });

    test("shows what a step does in its own words, and nothing of the step before it", () => {
      const last = (...events: readonly ProgressEvent[]) =>
        [...STORY, ...events].reduce(reduceEvent, emptyPicture("")).last;
      const started = (step: string, title?: string): ProgressEvent => ({
        ...base,
        kind: "step_started",
        step,
        ...(title === undefined ? {} : { title }),
      });
      const edit: ProgressEvent = { ...base, kind: "agent", step: "agent", event: { kind: "text", text: "I read it" } };
      expect(last(started("gate-command", "running npm test"))).toBe("running npm test");
      expect(last(started("agent", "the agent implements"), edit)).toBe("I read it");
      expect(last(started("agent", "the agent implements"), edit, started("build"))).toBe("build");
      expect(last(edit, started("node:a#1/request"))).toBe("I read it");
      expect(last(edit, { ...base, kind: "note", text: "a notice" })).toBe("I read it");
    });

    test("earlier finished steps are listed, except the many steps of a graph's nodes", () => {
      const line = (step: string, title?: string) =>
        eventLine(
          { ...base, kind: "step_finished", step, replayed: true, ...(title === undefined ? {} : { title }) },
          PAGE,
        );
      expect(line("build")).toBe("12:00:00    finished before: build\n");
      expect(line("head", "reading\nthe branch")).toBe("12:00:00    finished before: reading; the branch\n");
      expect(["node:a#1/request", "batch:1#1/conflicts", "graph:e2e-0/escalate"].map((step) => line(step))).toEqual([
        null,
        null,
        null,
      ]);
    });
  });

  test("only a terminal with a cursor is redrawn", () => {
    const page = { ...PAGE, width: 80, terminal: true, now: 0, program: "holdfast" };
    expect(canRedraw({ page, env: { TERM: "xterm" } })).toBe(true);
    expect(canRedraw({ page, env: { TERM: "dumb" } })).toBe(false);
    expect(canRedraw({ page: { ...page, terminal: false }, env: {} })).toBe(false);
  });

  test("times in readable form", () => {
    expect([0, 59_999, 60_000, 3_599_999, 3_900_000].map(clockText)).toEqual([
      "0 s",
      "59 s",
      "1 min",
      "59 min",
      "1 h 05 min",
    ]);
  });

  // eslint-disable-next-line no-control-regex
  const TOKEN = /\x1b\[\?\d+[hl]|\x1b\[\d*[A-Z]|\n|[^\x1b\n]+/g;

  /** A terminal that understands what the region writes: rows of text and a cursor. */
  class Screen {
    rows: string[] = [""];
    row = 0;
    writes = 0;
    write(text: string): void {
      this.writes += 1;
      for (const token of text.match(TOKEN) ?? []) {
        if (token === "\n") {
          this.row += 1;
          this.rows[this.row] ??= "";
        } else if (token === "\x1b[G") this.column = 0;
        else if (token.endsWith("A") && token.startsWith("\x1b[")) this.row -= Number(token.slice(2, -1));
        else if (token === "\x1b[K") this.rows[this.row] = (this.rows[this.row] ?? "").slice(0, this.column);
        else if (token === "\x1b[J") {
          this.rows.length = this.row + 1;
          this.rows[this.row] = "";
        } else if (!token.startsWith("\x1b")) {
          this.rows[this.row] = token + (this.rows[this.row] ?? "").slice(token.length);
          this.column = token.length;
        }
        if (token === "\n") this.column = 0;
      }
    }
    column = 0;
  }

  test("the region is redrawn in place, logs scroll above it, and it leaves nothing behind", () => {
    const screen = new Screen();
    const region = createLiveRegion({ write: (text) => screen.write(text), columns: () => 80, page: {} });
    region.draw(["one", "two, a long line"]);
    region.draw(["uno", "dos"]);
    expect(screen.rows).toEqual(["uno", "dos", ""]);
    region.log("log 1\n");
    region.log("log 2\n");
    expect(screen.rows).toEqual(["log 1", "log 2", "uno", "dos", ""]);
    region.draw(["only"]);
    expect(screen.rows).toEqual(["log 1", "log 2", "only", ""]);
    const before = screen.writes;
    region.draw(["one write a frame"]);
    expect(screen.writes).toBe(before + 1);
    region.close();
    expect(screen.rows).toEqual(["log 1", "log 2", ""]);
  });

  test("a window made narrower has wrapped the old lines: all of their rows are redrawn", () => {
    const written: string[] = [];
    let columns = 80;
    const region = createLiveRegion({ write: (text) => written.push(text), columns: () => columns, page: {} });
    region.draw(["x".repeat(79), "short"]);
    columns = 40;
    region.draw(["y"]);
    expect(written.at(-1)).toContain("\x1b[3A\x1b[G");
  });
});

describe("follow graph", () => {
  const EVENT: ProgressEvent = { run: "r", at: "2026-11-15T12:00:00.000Z", kind: "note", text: "" };

  test("an event triggers a reading, and another one if more came meanwhile; after the end there is none", async () => {
    const holdfast = await openHoldfast({ pretend: true });
    onTestFinished(() => holdfast.close());
    const run = await holdfast.createRun({ id: "r" });
    const { planes } = await run.get((await run.save({ values: {} })).sequence);
    const seen: (GraphPicture | null)[] = [];
    const follow = followGraph(holdfast, { graph: (graph) => seen.push(graph) });
    follow.show(EVENT);
    await expect.poll(() => seen.length, { timeout: 600_000 }).toBe(1);
    expect(seen).toEqual([null]);
    const graph = sampleGraph([sampleNode("a"), sampleNode("b", ["a"])]);
    await run.save({ planes: { position: { ...planes.position, graph } } });
    follow.show({ ...EVENT, kind: "agent", step: "a", event: { kind: "text", text: "moves no node" } });
    follow.show(EVENT);
    await expect.poll(() => seen.at(-1)?.batches, { timeout: 600_000 }).toEqual([["a"], ["b"]]);
    follow.show(EVENT);
    await follow.close();
    const before = seen.length;
    follow.show(EVENT);
    await new Promise((resolve) => setTimeout(resolve, 400));
    expect(seen.length).toBe(before);
  });
});

import { expect, test } from "vitest";
import type { EntryKind, JournalEntry } from "@holdfast/core/journal";
import type { JsonObject } from "@holdfast/core/json";
import { PAGE } from "@holdfast/test-support/sample-run";
import { displayWidth } from "../output/text.ts";
import { entriesText, entryLine, entrySummary } from "./events.ts";

const entry = (number: number, kind: EntryKind, body: JsonObject): JournalEntry => ({
  run: "fix-login",
  entry: number,
  kind,
  at: "2026-11-15T11:00:00.500Z",
  epoch: 1,
  body,
  digest: "a".repeat(64),
  hash: "b".repeat(64),
});

const entries = [
  entry(1, "run.created", { workflow: "impl", work: { kind: "issue", number: 42 }, labels: {} }),
  entry(2, "checkpoint", {
    sequence: 1,
    trigger: "manual",
    name: "before the refactor",
    digest: "ab".repeat(32),
    tags: [],
  }),
  entry(10, "x.review", { score: 71, text: "line one\nline \x1b[31mtwo", done: true, none: null }),
];

test("the journal at 80 columns", () => {
  const text = entriesText(entries, PAGE);
  expect(text).toMatchInlineSnapshot(`
    "ENTRY  WHEN        KIND         WHAT
        1  59 min ago  run.created  impl issue #42
        2  59 min ago  checkpoint   @1 manual "before the refactor"
       10  59 min ago  x.review     score=71 text="line one\\nline \\u001b[31mtwo" do…
    "
  `);
  for (const line of text.split("\n")) expect(displayWidth(line), line).toBeLessThanOrEqual(80);
});

test("followed entries are one line each", () => {
  expect(entries.map((one) => entryLine(one, PAGE)).join("")).toMatchInlineSnapshot(`
    "    1  2026-11-15 11:00:00  run.created         impl issue #42
        2  2026-11-15 11:00:00  checkpoint          @1 manual "before the refactor"
       10  2026-11-15 11:00:00  x.review            score=71 text="line one\\nline \\…
    "
  `);
});

test("checkpoints that gc dropped are one clause for each reason", () => {
  const drops = [
    ...Array.from({ length: 40 }, (_, at) => ({ sequence: at + 1, why: "beyond the newest 5 automatic" })),
    { sequence: 44, why: "older than 30 days" },
  ];
  expect(entrySummary(entry(99, "checkpoint.dropped", { drops }))).toBe(
    "@1-40 beyond the newest 5 automatic; @44 older than 30 days",
  );
});

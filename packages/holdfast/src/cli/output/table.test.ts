import * as fc from "fast-check";
import { expect, test } from "vitest";
import { displayWidth } from "./text.ts";
import { planWidths, renderTable } from "./table.ts";

const columns = [
  { title: "RUN", shrinkTo: 8 },
  { title: "N", align: "right" },
  { title: "NAME", shrinkTo: 6 },
] as const;

test("columns line up also where characters are wide", () => {
  const rows = [
    [{ text: "a" }, { text: "1" }, { text: "first" }],
    [{ text: "日本語" }, { text: "12" }, { text: "" }],
  ];
  expect(renderTable({ columns, rows }, { width: 80, color: false })).toBe(
    "RUN      N  NAME\na        1  first\n日本語  12\n",
  );
});

test("names from data cannot contain escape sequences or lines of their own", () => {
  const rows = [[{ text: "\x1b[2Jevil\nline" }, { text: "1" }, { text: "" }]];
  const text = renderTable({ columns, rows }, { width: 80, color: true });
  expect(text).toContain("\\x1b[2Jevil\\nline");
  expect(text.split("\n")).toHaveLength(3);
});

test("without colour there is no escape sequence at all", () => {
  const rows = [[{ text: "a", style: "red" } as const, { text: "1" }, { text: "b" }]];
  expect(renderTable({ columns, rows }, { width: 80, color: false })).not.toContain("\x1b");
  expect(renderTable({ columns, rows }, { width: 80, color: true })).toContain("\x1b[31ma\x1b[39m");
});

test("a narrow page cuts the widest first, none below its minimum, and marks it with an ellipsis", () => {
  const rows = [[{ text: "x".repeat(60) }, { text: "1" }, { text: "y".repeat(30) }]];
  const text = renderTable({ columns, rows }, { width: 40, color: false });
  for (const line of text.trimEnd().split("\n")) expect(displayWidth(line)).toBeLessThanOrEqual(40);
  expect(text).toContain("…");
  expect(planWidths({ columns, natural: [60, 1, 30], width: 10 })).toEqual([8, 1, 6]);
});

test("any table fits the page unless its minimum widths forbid it", () => {
  const cell = fc.string({ unit: "grapheme", maxLength: 50 });
  fc.assert(
    fc.property(
      fc.array(fc.tuple(cell, fc.nat(99).map(String), cell), { maxLength: 5 }),
      fc.integer({ min: 24, max: 90 }),
      (data, width) => {
        const rows = data.map((row) => row.map((text) => ({ text })));
        const lines = renderTable({ columns, rows }, { width, color: false }).trimEnd().split("\n");
        expect(lines).toHaveLength(rows.length + 1);
        for (const line of lines) expect(displayWidth(line)).toBeLessThanOrEqual(width);
      },
    ),
  );
});

test("on a narrow page whole columns are left out, the least important first", () => {
  const columns = [
    { title: "ID" },
    { title: "SIZE", expendable: 2 },
    { title: "WHEN", expendable: 1 },
    { title: "NAME", shrinkTo: 6 },
  ];
  const rows = [[{ text: "run@1" }, { text: "1.2 kB" }, { text: "just now" }, { text: "before the refactor" }]];
  const headers = (width: number) => renderTable({ columns, rows }, { width, color: false }).split("\n")[0];
  expect(headers(40)).toMatch(/^ID +SIZE +WHEN +NAME$/);
  expect(headers(26)).toMatch(/^ID +WHEN +NAME$/);
  expect(headers(16)).toMatch(/^ID +NAME$/);
  expect(headers(5)).toMatch(/^ID +NAME$/);
});

test("a wrapped column keeps every word, in its place", () => {
  const text = renderTable(
    {
      columns: [{ title: "N" }, { title: "WHY", shrinkTo: 8, wrap: true }],
      rows: [[{ text: "1" }, { text: "one two three four" }]],
    },
    { width: 14, color: false },
  );
  expect(text).toBe("N  WHY\n1  one two\n   three four\n");
});

import { expect, test } from "vitest";
import { countLines } from "./count-lines.ts";

test("lines are counted a file and in all; a binary has none", () => {
  const file = (path: string) => ({ path, status: "modified", from: null });
  expect(countLines([file("a.ts"), file("b.png")], "3\t1\ta.ts\n-\t-\tb.png\n")).toEqual({
    files: 2,
    added: 3,
    removed: 1,
    changed: [
      { path: "a.ts", status: "modified", from: null, added: 3, removed: 1 },
      { path: "b.png", status: "modified", from: null, added: null, removed: null },
    ],
  });
  expect(countLines([], "")).toEqual({ files: 0, added: 0, removed: 0, changed: [] });
});

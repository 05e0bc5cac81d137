import { expect, test } from "vitest";
import { PAGE } from "@holdfast/test-support/sample-run";
import type { HoldfastDiff } from "../../holdfast.ts";
import { diffText } from "./diff.ts";

const patch = `diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1 +1 @@
-old \x1b[31m
+new\r
`;
const diff: HoldfastDiff = {
  files: { text: patch, files: [{ path: "a.txt", status: "modified", from: null } as const] },
  leftOut: [null, null],
  values: [
    { path: "/context/values/step", from: 3, to: 4 },
    { path: "/context/values/plan", to: "a\nb" },
    { path: "/context/values/list", from: [1, 2, 3] },
    { path: "/context/values/long", from: "x".repeat(100), to: "y".repeat(100) },
  ],
};

test("file content cannot control the terminal", () => {
  expect(diffText(diff, "patch", PAGE)).toMatchInlineSnapshot(`
    "state /context/values/step 3 → 4
    state /context/values/plan added "a\\nb"
    state /context/values/list removed [1,2,3]
    state /context/values/long "xxxxxxxxxxxxxxxxxxxxx… → "yyyyyyyyyyyyyyyyyyyyy…

    diff --git a/a.txt b/a.txt
    --- a/a.txt
    +++ b/a.txt
    @@ -1 +1 @@
    -old \\x1b[31m
    +new\\r
    "
  `);
  const colored = diffText(diff, "patch", { ...PAGE, color: true });
  expect(colored).toContain("\x1b[31m-old \\x1b[31m\x1b[39m");
  expect(colored).toContain("\x1b[36m@@ -1 +1 @@\x1b[39m");
});

test("a pipe gets the patch byte for byte, to its end", () => {
  const text = diffText(diff, "patch", { ...PAGE, terminal: false, width: Number.POSITIVE_INFINITY });
  expect(text.endsWith(`\n\n${patch}`)).toBe(true);
  expect(diffText({ ...diff, values: [] }, "patch", { ...PAGE, terminal: false })).toBe(patch);
});

test("the format names has names only", () => {
  expect(diffText(diff, "names", PAGE)).toBe("a.txt\n");
});

test("names with characters that cannot be shown are quoted as git quotes them, on a terminal and in a pipe", () => {
  const names = ["plain é.txt", 'a\u009b2J\u202eb"c\\.txt', String.raw`"quoted\n.txt"`];
  const files = names.map((path) => ({ path, status: "modified", from: null }) as const);
  const expected = `plain é.txt\n"a\\302\\2332J\\342\\200\\256b\\"c\\\\.txt"\n"quoted\\n.txt"\n`;
  for (const terminal of [true, false])
    expect(diffText({ ...diff, files: { text: "", files } }, "names", { ...PAGE, terminal })).toBe(expected);
});

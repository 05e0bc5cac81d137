import { Writable } from "node:stream";
import { expect, test } from "vitest";
import { createSink } from "./sink.ts";

function failing(code: string): Writable {
  return new Writable({ write: (_chunk, _encoding, done) => done(Object.assign(new Error(code), { code })) });
}

test("a reader that has gone away is noticed, and is no failure", async () => {
  const sink = createSink(failing("EPIPE"));
  sink.write("a");
  await sink.drained();
  await new Promise(setImmediate);
  expect([sink.write("b"), sink.failure()]).toEqual([false, undefined]);
  await sink.drained();
});

test("a full disk is a failure", async () => {
  const sink = createSink(failing("ENOSPC"));
  sink.write("a");
  await sink.drained();
  await new Promise(setImmediate);
  expect([sink.write("b"), sink.failure()?.message]).toEqual([false, "ENOSPC"]);
});

test("what was written arrives in order", async () => {
  const chunks: string[] = [];
  const sink = createSink(new Writable({ write: (chunk, _encoding, done) => done(void chunks.push(String(chunk))) }));
  expect([sink.write("a"), sink.write(""), sink.write("b")]).toEqual([true, true, true]);
  await sink.drained();
  expect(chunks.join("")).toBe("ab");
});

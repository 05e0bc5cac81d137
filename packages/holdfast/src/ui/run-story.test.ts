import type { JsonObject } from "@holdfast/core/json";
import { expect, test } from "vitest";
import { rangeOf } from "./run-page.ts";
import { link } from "./run-rows.ts";
import { StoryReader } from "./run-story.ts";

function story(...entries: readonly (readonly [string, JsonObject])[]): StoryReader {
  const reader = new StoryReader();
  for (const [at, [kind, body]] of entries.entries())
    reader.read({ entry: at + 1, kind: kind as "note", at: "2026-11-18T07:00:00.000Z", body });
  return reader;
}

const restore = (target: number, before: number): readonly (readonly [string, JsonObject])[] => [
  ["checkpoint", { sequence: before, trigger: "before_restore" }],
  ["restore.finished", { target: `r@${target}` }],
  ["checkpoint", { sequence: before + 1, trigger: "restore" }],
];

test("undo walks back through restores, and never undoes an undo", () => {
  expect(story(...restore(1, 5)).undoable).toMatchObject({ kind: "restore", before: 5, target: 1 });
  expect(story(...restore(1, 5), ...restore(2, 7)).undoable).toMatchObject({ before: 7, target: 2 });
  expect(story(...restore(1, 5), ...restore(2, 7), ...restore(7, 9)).undoable).toMatchObject({ before: 5, target: 1 });
  expect(story(...restore(1, 5), ...restore(5, 7)).undoable).toBeNull();
});

test("work after a restore makes it final, and a removed tag cannot be undone again", () => {
  expect(story(...restore(1, 5), ["stage.entered", {}]).undoable).toBeNull();
  expect(story(["tag.added", { name: "good", sequence: 1 }]).undoable).toMatchObject({ kind: "tag", name: "good" });
  expect(story(["tag.added", { name: "good", sequence: 1 }], ["tag.removed", { name: "good" }]).undoable).toBeNull();
});

test("the last failing check has the end of its output, and is forgotten when it passes", () => {
  const output = Array.from({ length: 50 }, (_one, at) => `line ${at}`).join("\n");
  const failed = ["step.finished", { step: "gate", result: { kind: "exited", code: 1, output }, spent: null }] as const;
  const { failure } = story(failed);
  expect(failure).toMatchObject({ name: "gate", why: "gate failed with exit 1" });
  expect(failure?.tail).toHaveLength(20);
  expect(failure?.tail.at(-1)).toBe("line 49");
  const passed = ["step.finished", { step: "gate", result: { kind: "exited", code: 0 }, spent: null }] as const;
  expect(story(failed, passed).failure).toBeNull();
});

test("a gate that fails before any change has its output until its stage ends, or the gate passes", () => {
  const gate = (code: number) =>
    [
      "step.finished",
      { step: "base-gate-1", result: { changed: false, ran: { kind: "exited", code, output: "no lint\n" } } },
    ] as const;
  expect(story(gate(1)).failure).toMatchObject({ why: "base-gate-1 failed with exit 1", tail: ["no lint"] });
  expect(story(gate(1), gate(0)).failure).toBeNull();
  expect(story(gate(1), ["stage.ended", { stage: "setup", event: "setup_done" }]).failure).toBeNull();
});

test("a file that does not parse is named with its line", () => {
  const result = [{ kind: "failed", path: "cart.js", line: 1, message: "Unexpected end of input" }, { kind: "parsed" }];
  const { failure } = story(["step.finished", { step: "parse-gate", result }]);
  expect(failure).toEqual({
    name: "parse-gate",
    why: "1 file does not parse",
    tail: ["cart.js:1: Unexpected end of input"],
  });
});

test("an agent that failed is the failure, not the check after it, until a call succeeds", () => {
  const call = (result: JsonObject) => ["step.finished", { step: "agent", result, spent: null }] as const;
  const failed = call({ outcome: "failed", cause: "crash", message: "exit 3: panic", usage: {} });
  const check = ["step.finished", { step: "check-1", result: { kind: "exited", code: 1 }, spent: null }] as const;
  expect(story(failed, check).failure?.why).toBe("The agent failed (crash): exit 3: panic");
  expect(story(failed, check, call({ outcome: "completed", usage: {} }), check).failure?.name).toBe("check-1");
});

test("a part of a text ends at whole characters, wherever it is cut", () => {
  const text = "aä€😀z".repeat(20);
  const bytes = Buffer.from(text);
  for (let limit = 4; limit < 12; limit += 1) {
    let read = "";
    for (let offset = 0; offset < bytes.length;) {
      const range = rangeOf(bytes.subarray(offset, offset + limit), offset, bytes.length);
      read += range.text;
      expect(range.next).toBeGreaterThan(offset);
      offset = range.next;
    }
    expect(read).toBe(text);
  }
  expect(rangeOf(bytes.subarray(2, 6), 2, bytes.length).text.startsWith("\uFFFD")).toBe(false);
});

test.each([
  ["https://github.com/a/b/pull/1", true],
  ["http://127.0.0.1:3000/", true],
  ["file:///etc/passwd", false],
  ["javascript:alert(1)", false],
  ["JaVaScRiPt:alert(1)", false],
  ["data:text/html,x", false],
  ["https://user@evil.example/", false],
  ["not an address", false],
])("%s is a link: %s", (url, isLink) => {
  expect(link("text", url)).toEqual({ text: "text", url: isLink ? url : null });
});

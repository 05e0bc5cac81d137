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

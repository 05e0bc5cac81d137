import fc from "fast-check";
import { expect, test } from "vitest";
import { parseAddress } from "../checkpoint/address.ts";
import { makeRunId } from "./run-id.ts";
import { RUN_ID } from "./run.ts";

const task = (text: string) => makeRunId({ work: { kind: "task", text }, random: "k3f9" });

test("an issue, a task and nothing each give a name a person can read", () => {
  expect(makeRunId({ work: { kind: "issue", number: 42 }, random: "k3f9" })).toBe("issue-42-k3f9");
  expect(makeRunId({ work: { kind: "issue", number: 1 }, random: "k3f9" })).toBe("issue-1-k3f9");
  expect(task("Fix login bug")).toBe("fix-login-bug-k3f9");
  expect(makeRunId({ work: { kind: "none" }, random: "k3f9" })).toBe("run-k3f9");
});

test.each([
  ["../../etc/passwd", "etc-passwd-k3f9"],
  ["$(rm -rf /); `id`", "rm-rf-id-k3f9"],
  ["--upload-pack=evil", "upload-pack-evil-k3f9"],
  ["Überprüfe die Größe", "uberprufe-die-gro-e-k3f9"],
  ["ログインを直す", "task-k3f9"],
  ["", "task-k3f9"],
  ["a\0b\nc", "a-b-c-k3f9"],
  ["x".repeat(10_000), `${"x".repeat(40)}-k3f9`],
])("task text %j becomes %s", (text, id) => {
  expect(task(text)).toBe(id);
});

test("a text without a single ASCII letter still gives a whole id (AIWG: ralph--2aee878f)", () => {
  expect(task("修复登录 🐛 — !!")).toBe("task-k3f9");
});

test("long texts end at a word, not in the middle of one", () => {
  expect(task("please make the settings page remember the chosen language")).toBe(
    "please-make-the-settings-page-remember-k3f9",
  );
});

test("any text and any random part give an id that fits RUN_ID and is an address of itself", () => {
  const random = fc.stringMatching(/^[a-z0-9]{4,16}$/);
  const work = fc.oneof(
    fc.record({ kind: fc.constant("task" as const), text: fc.string({ unit: "binary" }) }),
    fc.record({ kind: fc.constant("issue" as const), number: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }) }),
  );
  fc.assert(
    fc.property(work, random, (some, part) => {
      const id = makeRunId({ work: some, random: part });
      expect(id).toMatch(RUN_ID);
      expect(parseAddress(id)).toEqual({ run: id, at: { kind: "none" } });
    }),
  );
});

test.each([0, -1, 1.5, Number.NaN, 1e300])("issue number %d is refused", (number) => {
  expect(() => makeRunId({ work: { kind: "issue", number }, random: "k3f9" })).toThrow(/issue number/);
});

test.each(["", "abc", "K3F9", "a-b-c", "ä123", "a".repeat(17)])("random part %j is refused", (random) => {
  expect(() => makeRunId({ work: { kind: "none" }, random })).toThrow(/random part/);
});

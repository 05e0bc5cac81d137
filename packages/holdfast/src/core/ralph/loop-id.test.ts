import fc from "fast-check";
import { expect, test } from "vitest";
import { hostileText } from "./hostile-text.ts";
import { LOOP_ID, makeLoopId } from "./loop-id.ts";

const hex = fc.stringMatching(/^[a-f0-9]{8}$/);

test("a loop id says what the loop is for", () => {
  expect(makeLoopId({ task: "Fix the Tests!", hex: "a1b2c3d4" })).toBe("ralph-fix-the-tests-a1b2c3d4");
});

test.each(["", "   ", "!!!", "修复测试", "исправь тесты", "\u0000"])("a task without a Latin letter: %j", (task) => {
  expect(makeLoopId({ task, hex: "2aee878f" })).toBe("ralph-task-2aee878f");
});

test("whatever the task holds, the id fits the schema and a file name", () => {
  fc.assert(
    fc.property(hostileText(80), hex, (task, digits) => {
      const id = makeLoopId({ task, hex: digits });
      expect(id).toMatch(LOOP_ID);
      expect(id.length).toBeLessThanOrEqual(63);
      expect(id.endsWith(`-${digits}`)).toBe(true);
    }),
  );
});

test.each(["", "a1b2c3d", "a1b2c3d4e", "A1B2C3D4", "e5f6g7h8"])("digits that are not hex are refused: %s", (digits) => {
  expect(() => makeLoopId({ task: "x", hex: digits })).toThrow(expect.objectContaining({ code: "USAGE" }));
});

import { expect, test } from "vitest";
import { permissionArgs } from "./permission-args.ts";

const join = (...extra: readonly string[]) =>
  permissionArgs({ ours: ["--yolo"], extra, words: ["--yolo", "--approval-mode"] }).join(" ");

test("what the user gives follows ours, or takes its place", () => {
  expect(join()).toBe("--yolo");
  expect(join("--sandbox")).toBe("--yolo --sandbox");
  expect(join("--approval-mode", "plan")).toBe("--approval-mode plan");
  expect(join("--sandbox", "--approval-mode=plan")).toBe("--sandbox --approval-mode=plan");
});

import { expect, test } from "vitest";
import { piArgs } from "./argv.ts";

test("a new session that may do all", () => {
  const args = piArgs({ task: { model: "anthropic/claude-opus-4-5", yolo: true, session: null }, extra: [] });
  expect(args.join(" ")).toBe("--print --mode json --model anthropic/claude-opus-4-5");
});

test("one to go on with, without a shell", () => {
  const args = piArgs({ task: { model: null, yolo: false, session: "11" }, extra: [] });
  expect(args.join(" ")).toBe("--print --mode json --tools read,edit,write,grep,find,ls --session 11");
});

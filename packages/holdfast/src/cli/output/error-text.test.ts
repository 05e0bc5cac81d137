import { expect, test } from "vitest";
import { HoldfastError } from "../../core/error.ts";
import { errorText } from "./error-text.ts";

test("a message of several lines stays one, below its beginning, and cannot move the cursor", () => {
  const page = { width: 80, color: false, terminal: true, now: 0, offset: () => 0, program: "holdfast" };
  const error = new HoldfastError({ code: "GIT_FAILED", message: "git said:\nremote: no\x1b[2J\n" });
  expect(errorText(error, null, page)).toBe("error: git said:\n       remote: no\\x1b[2J\n");
});

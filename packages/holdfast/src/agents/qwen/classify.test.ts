import { expect, test } from "vitest";
import { classifyQwen } from "./classify.ts";
import { NOTHING_READ, type QwenResult } from "./reader.ts";
import type { QwenRefusal } from "./record.ts";

function classify(
  result: Partial<QwenResult> | null,
  params: { resumes?: boolean; code?: number; stderr?: string; refused?: QwenRefusal } = {},
) {
  const { resumes = false, code = 0, stderr = "", refused = null } = params;
  const whole = result === null ? null : { isError: false, text: "Done.", error: "", denied: [], ...result };
  const exit = { kind: "exited", code, stderr } as const;
  return classifyQwen({ state: { ...NOTHING_READ, result: whole }, refused, exit, resumes });
}

const failed = (words: string) => ({ isError: true, error: `[API Error: ${words}]` });

test("done is a result without an error, and nothing denied", () => {
  expect(classify({})).toEqual({ kind: "completed", text: "Done." });
  expect(classify(null)).toEqual({ kind: "open" });
  expect(classify({ denied: ["run_shell_command"] })).toMatchObject({ cause: "permission_denied" });
});

test("a refusal is told by the status that its words begin with", () => {
  for (const [words, cause] of [
    ["401 no", "auth"],
    ["404 no", "missing"],
    ["429 no", "rate_limit"],
    ["500 no", "overload"],
    ["400 no", "crash"],
    ["Connection error.", "network"],
    ["400 maximum context length", "context_too_long"],
    ["Context is too large to send", "context_too_long"],
  ] as const)
    expect(classify(failed(words))).toMatchObject({ kind: "failed", cause });
  expect(classify(failed("no"), { refused: { status: 403, message: "no" } })).toMatchObject({ cause: "auth" });
  expect(classify(failed("400 no"), { resumes: true })).toMatchObject({ cause: "session_lost" });
  expect(classify(failed("401 no"))).toMatchObject({ message: "Qwen Code: 401 no" });
});

test("silence after a refusal is waiting for another answer", () => {
  const refused = { status: 429, message: "429 slow down" };
  expect(classify(null, { refused })).toMatchObject({
    kind: "waiting",
    cause: "rate_limit",
    message: "Qwen Code: 429 slow down",
  });
});

test("what it finds wrong before it begins", () => {
  const said = (stderr: string) => classify(null, { code: 1, stderr });
  expect(said("No saved session found with ID 1.")).toMatchObject({ cause: "session_lost" });
  expect(said("No auth type is selected.")).toMatchObject({ cause: "auth" });
  expect(said("Segmentation fault")).toEqual({ kind: "open" });
});

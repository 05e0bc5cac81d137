import { expect, test } from "vitest";
import { classifyGemini } from "./classify.ts";
import { NOTHING_READ, type GeminiState } from "./reader.ts";

function classify(params: {
  readonly message?: string;
  readonly code?: number;
  readonly stderr?: string;
  readonly resumes?: boolean;
  readonly state?: Partial<GeminiState>;
}) {
  const { message, code = 1, stderr = "", resumes = false } = params;
  const result = message === undefined ? null : { isError: true, message, tokens: null };
  const exit = { kind: "exited", code, stderr } as const;
  return classifyGemini({ state: { ...NOTHING_READ, result, ...params.state }, exit, resumes, now: 0 });
}

test("the status is told by the answer, else by what an exit code keeps of it", () => {
  const answer = JSON.stringify({ error: { code: 500, message: "oops", status: "INTERNAL" } });
  expect(classify({ message: `[API Error: ${answer}]`, code: 145 })).toMatchObject({
    cause: "overload",
    message: "Gemini CLI: oops",
  });
  for (const [code, cause] of [
    [145, "auth"],
    [147, "auth"],
    [173, "rate_limit"],
    [244, "overload"],
    [247, "overload"],
    [17, "overload"],
    [1, "crash"],
  ] as const)
    expect(classify({ message: "[API Error: words]", code })).toMatchObject({ kind: "failed", cause });
});

test("a request that is found wrong means the history when it is the first of a session that is gone on with", () => {
  const wrong = { message: "[API Error: wrong]", code: 144 };
  expect(classify({ ...wrong, resumes: true })).toMatchObject({ cause: "session_lost" });
  expect(classify({ ...wrong, resumes: true, state: { hasActed: true } })).toMatchObject({ cause: "crash" });
  expect(classify(wrong)).toMatchObject({ cause: "crash" });
});

test("without a result its own exit codes are read, and nothing else is guessed", () => {
  const stderr = "YOLO mode is enabled.\nError resuming session: Invalid session identifier\n";
  expect(classify({ code: 42, resumes: true, stderr })).toMatchObject({ cause: "session_lost" });
  expect(classify({ code: 42, stderr: "No input" })).toEqual({ kind: "open" });
  expect(classify({ code: 41, stderr: "set GEMINI_API_KEY" })).toMatchObject({ cause: "auth" });
  expect(classify({ code: 0 })).toEqual({ kind: "open" });
});

test("success is not success where a tool was denied", () => {
  const result = { isError: false, message: "", tokens: null };
  expect(classify({ state: { result, text: "Done." } })).toEqual({ kind: "completed", text: "Done." });
  const denied = new Set(["web_fetch"]);
  expect(classify({ state: { result, text: "Done.", denied } })).toMatchObject({ cause: "permission_denied" });
});

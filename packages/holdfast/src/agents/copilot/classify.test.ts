import { expect, test } from "vitest";
import { classifyCopilot } from "./classify.ts";
import { NOTHING_READ, type CopilotState } from "./reader.ts";

function classify(state: Partial<CopilotState>, params: { resumes?: boolean; code?: number; stderr?: string } = {}) {
  const { resumes = false, code = 0, stderr = "" } = params;
  const exit = { kind: "exited", code, stderr } as const;
  return classifyCopilot({ state: { ...NOTHING_READ, ...state }, exit, resumes });
}

const error = (status: number | null, type = "query", message = "words") => ({
  error: { type, message, status },
  exitCode: 1,
});

test("done is its own last event, and nothing denied", () => {
  expect(classify({ exitCode: 0, text: "Done." })).toEqual({ kind: "completed", text: "Done." });
  expect(classify({ text: "Done." })).toEqual({ kind: "open" });
  expect(classify({ exitCode: 1 })).toMatchObject({ cause: "crash" });
  expect(classify({ exitCode: 0, denied: new Set(["bash"]) })).toMatchObject({ cause: "permission_denied" });
});

test("what it gave up for: by its own word, by the provider's, by the status", () => {
  expect(classify(error(null, "authentication"))).toMatchObject({ cause: "auth" });
  expect(classify(error(429, "quota"))).toMatchObject({ cause: "billing" });
  expect([404, 429, 503, 400].map((status) => classify(error(status)))).toMatchObject(
    ["missing", "rate_limit", "overload", "crash"].map((cause) => ({ cause })),
  );
  const refused = { type: "", message: "prompt is too long", status: 400 };
  expect(classify({ ...error(400), refused })).toMatchObject({ cause: "context_too_long" });
  const cut = "Failed native model HTTP request: error reading a body from connection: unexpected EOF";
  expect(classify(error(null, "query", cut))).toMatchObject({ cause: "network" });
  expect(classify(error(400), { resumes: true })).toMatchObject({ cause: "session_lost" });
});

test("without a last event: what it waits for, or what it found wrong before it began", () => {
  const refused = { type: "", message: "busy", status: 529 };
  expect(classify({ refused })).toMatchObject({ kind: "waiting", cause: "overload" });
  const said = (stderr: string) => classify({}, { code: 1, stderr });
  expect(said("Error: No session, task, or name matched '1'.")).toMatchObject({ cause: "session_lost" });
  expect(said("Error: No authentication information found.")).toMatchObject({ cause: "auth" });
  expect(said("Segmentation fault")).toEqual({ kind: "open" });
});

import { expect, test } from "vitest";
import { classifyPi } from "./classify.ts";
import { NOTHING_READ, type PiState } from "./reader.ts";

function classify(
  state: Partial<PiState>,
  params: { resumes?: boolean; yolo?: boolean; code?: number; stderr?: string } = {},
) {
  const { resumes = false, yolo = true, code = 0, stderr = "" } = params;
  const exit = { kind: "exited", code, stderr } as const;
  return classifyPi({ state: { ...NOTHING_READ, ...state }, exit, resumes, yolo });
}

const last = (stop: string, error = "") => ({ last: { text: "Done.", stop, error }, isOver: true });

test("done is a last message that stopped by itself", () => {
  expect(classify(last("stop"))).toEqual({ kind: "completed", text: "Done." });
  expect(classify({ ...last("stop"), isOver: false })).toEqual({ kind: "open" });
  expect(classify(last("length"))).toMatchObject({ cause: "crash" });
  const denied = { ...last("stop"), absent: new Set(["bash"]) };
  expect(classify(denied, { yolo: false })).toMatchObject({ cause: "permission_denied" });
  expect(classify(denied)).toMatchObject({ kind: "completed" });
});

test("the exit is 0 also for what the provider refused", () => {
  const causes = ["401 {}", "404 {}", "429 {}", "529 {}", "400 {}", "terminated", "400 prompt is too long"];
  expect(causes.map((error) => classify(last("error", error)))).toMatchObject(
    ["auth", "missing", "rate_limit", "overload", "crash", "network", "context_too_long"].map((cause) => ({ cause })),
  );
  expect(classify(last("error", "400 {}"), { resumes: true })).toMatchObject({ cause: "session_lost" });
});

test("what it finds wrong before it begins", () => {
  const said = (stderr: string) => classify({}, { code: 1, stderr });
  expect(said("No session found matching '1'")).toMatchObject({ cause: "session_lost" });
  expect(said('Error: Model "a/b" not found. Use --list-models')).toMatchObject({ cause: "missing" });
  expect(said("No API key found for anthropic.")).toMatchObject({ cause: "auth" });
  expect(said("Segmentation fault")).toEqual({ kind: "open" });
});

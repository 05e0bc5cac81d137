import fc from "fast-check";
import { expect, test } from "vitest";
import type { AgentExit } from "../agent-process.ts";
import type { CliEnd } from "./dialect.ts";
import { judgeEnd } from "./judge-end.ts";

const EXIT: AgentExit = {
  kind: "exited",
  code: 0,
  signal: null,
  reason: null,
  survivors: null,
  milliseconds: 60_000,
  stdout: "",
  stderr: "",
};
const COMPLETED: CliEnd = { kind: "completed", text: "Done." };
const REFUSED: CliEnd = { kind: "failed", cause: "overload", message: "busy", hint: null, until: null };

function judge(end: CliEnd, exit: Partial<AgentExit> = {}, worked = true) {
  const task = { timeoutMs: 1000, idleMs: 1000 };
  return judgeEnd({ end, exit: { ...EXIT, ...exit }, title: "Toy", worked, now: 0, task });
}

const anyExit = fc.record({
  kind: fc.constantFrom("exited", "signalled", "timed_out", "idle", "interrupted", "not_started"),
  code: fc.option(fc.integer({ min: 0, max: 255 }), { nil: null }),
  survivors: fc.option(fc.constant("7 (sh)"), { nil: null }),
}) satisfies fc.Arbitrary<Partial<AgentExit>>;

test("nothing but a terminal event, exit 0 and nothing left running is a success", () => {
  fc.assert(
    fc.property(fc.constantFrom(COMPLETED, REFUSED, { kind: "open" } as const), anyExit, (end, exit) => {
      const clean = exit.kind === "exited" && exit.code === 0 && exit.survivors === null;
      expect(judge(end, exit).kind).toBe(end.kind === "completed" && clean ? "completed" : "failed");
    }),
  );
});

test("what the agent says goes before its exit code, and why we ended it before both", () => {
  expect(judge(REFUSED, { code: 1 })).toMatchObject({ cause: "overload", message: "busy" });
  expect(judge(REFUSED)).toMatchObject({ cause: "overload" });
  expect(judge(REFUSED, { kind: "idle" })).toMatchObject({ cause: "hang" });
  expect(judge(COMPLETED, { kind: "interrupted" })).toMatchObject({ cause: "interrupted" });
  expect(judge(COMPLETED, { code: 1 })).toMatchObject({ cause: "crash" });
  expect(judge({ kind: "open" })).toMatchObject({ cause: "crash", message: "Toy ended without a result" });
});

test("silence is explained by what the agent said that it waits for, any other end is not", () => {
  const waiting: CliEnd = { ...REFUSED, kind: "waiting" };
  expect(judge(waiting, { kind: "idle" })).toMatchObject({ cause: "overload", message: "busy" });
  expect(judge(waiting, { kind: "idle", survivors: "7 (sh)" })).toMatchObject({ cause: "hang" });
  expect(judge(waiting, { kind: "interrupted" })).toMatchObject({ cause: "interrupted" });
  expect(judge(waiting, { kind: "timed_out" })).toMatchObject({ cause: "timeout" });
  expect(judge(waiting)).toMatchObject({ cause: "crash" });
});

test("instant is what ended soon and before any work was seen", () => {
  expect(judge({ kind: "open" }, { code: 1, milliseconds: 900 }, false)).toMatchObject({ instant: true });
  expect(judge({ kind: "open" }, { code: 1, milliseconds: 900 }, true)).toMatchObject({ instant: false });
  expect(judge({ kind: "open" }, { code: 1 }, false)).toMatchObject({ instant: false });
  for (const kind of ["idle", "timed_out", "interrupted"] as const)
    expect(judge({ kind: "open" }, { kind, milliseconds: 900 }, false)).toMatchObject({ instant: false });
});

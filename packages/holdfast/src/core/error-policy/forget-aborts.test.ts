import { expect, test } from "vitest";
import type { JournalEntry } from "../journal/journal.ts";
import { loadState } from "../state.ts";
import type { StateEntry } from "../state.ts";
import { emptyPlanes } from "../checkpoint/checkpoint.ts";
import { NO_ERRORS } from "./call-errors.ts";
import { forgetAborts } from "./forget-aborts.ts";

const failed = (entry: number, body: JournalEntry["body"]) => ({
  run: "r",
  entry,
  at: "2026-01-01T00:00:00Z",
  kind: "step.failed" as const,
  body: { visit: 0, step: "edit", reason: "no", spent: null, ...body },
});
const ended = {
  run: "r",
  entry: 9,
  at: "2026-01-01T00:00:00Z",
  kind: "step.finished" as const,
  body: { visit: 0, step: "edit", result: 1, spent: null },
};

test("what failed tries came to is folded from the journal; the end of the call ends it", () => {
  const checkpoint = { sequence: 1, planes: emptyPlanes({ workflow: "toy" }) };
  const errors = { ...NO_ERRORS, counts: { mine: 2 }, agents: ["b"] };
  const entries = [failed(1, {}), failed(2, { errors, verdict: { rule: "mine", action: "fallback", why: "so" } })];
  const body = { visit: 0, step: "edit", session: "s" };
  const session = { run: "r", entry: 1, at: "2026-01-01T00:00:00Z", kind: "step.session" as const, body };
  const fold = (...given: readonly StateEntry[]) =>
    loadState({ run: "r", checkpoint, entries: given, effects: [], apply: null }).state.position.visit;
  expect(fold(session, ...entries)).toMatchObject({ failures: { edit: 2 }, errors: { edit: errors } });
  // A session is of the agent that failed.
  expect(fold(session, ...entries).sessions).toBeUndefined();
  expect(fold(...entries, ended).errors).toBeUndefined();
});

test("whoever goes back has seen the abort: what was counted stays", () => {
  const errors = { edit: { ...NO_ERRORS, counts: { mine: 3 }, abort: "Rule mine ends the run" }, look: NO_ERRORS };
  const visit = { number: 4, steps: {}, failures: { edit: 3 } };
  expect(forgetAborts({ ...visit, errors })).toEqual({
    ...visit,
    errors: { edit: { ...NO_ERRORS, counts: { mine: 3 } }, look: NO_ERRORS },
  });
  expect(forgetAborts(visit)).toBe(visit);
});

import fc from "fast-check";
import { expect, test } from "vitest";
import { ENTRY_KINDS } from "./journal.ts";
import type { EntryKind } from "./journal.ts";
import type { JsonObject } from "../json.ts";
import { concernsRun, foldRun, NEW_RUN, parseRunFold, stepRun, unfinishedTarget } from "./run-fold.ts";

type Line = readonly [EntryKind, JsonObject?];

function journal(lines: readonly Line[]) {
  return lines.map(([kind, body], index) => ({
    run: "issue-42-k3f9",
    entry: index + 1,
    kind,
    at: `2026-01-01T00:00:${String(index).padStart(2, "0")}Z`,
    body: body ?? {},
  }));
}

const parked: Line = ["run.parked", { on: "quota", reason: "rate limit", until: "2026-01-02T00:00:00Z" }];
const fatal: Line = ["run.ended", { outcome: "fatal", reason: "max iterations (7) reached" }];
const done: Line = ["run.ended", { outcome: "done" }];
const reopened: Line = ["run.reopened", { reason: "forced from 3" }];

test("a new run is open", () => {
  expect(foldRun([])).toEqual({ state: { kind: "open" }, unfinishedRestore: null });
});

test("parked and unparked", () => {
  expect(foldRun(journal([parked])).state).toEqual({
    kind: "parked",
    on: "quota",
    reason: "rate limit",
    until: "2026-01-02T00:00:00Z",
  });
  expect(foldRun(journal([parked, ["run.unparked"]])).state).toEqual({ kind: "open" });
});

test("a crash ends nothing: a run that only stopped writing is open (AIWG: crashed was terminal)", () => {
  expect(foldRun(journal([["run.created"], ["lease.taken"], ["stage.entered"], ["step.started"]])).state).toEqual({
    kind: "open",
  });
});

test("the original reason of a fatal run is never lost (agentize: 'Fatal stage reached')", () => {
  const later: Line = ["run.ended", { outcome: "fatal", reason: "No kernel for stage: fatal" }];
  const state = foldRun(journal([fatal, later, parked, done, ["run.unparked"]])).state;
  expect(state).toEqual({ kind: "fatal", at: "2026-01-01T00:00:00Z", reason: "max iterations (7) reached" });
});

test("resuming a done run does not make it fatal (agentize)", () => {
  expect(foldRun(journal([done, fatal])).state).toMatchObject({ kind: "done" });
});

test("a fatal run that was re-opened by force is open, and can end again", () => {
  expect(foldRun(journal([fatal, reopened])).state).toEqual({ kind: "open" });
  expect(foldRun(journal([fatal, reopened, done])).state).toMatchObject({ kind: "done" });
});

test("a restore that did not finish is seen until one does", () => {
  const started: Line = ["restore.started", { sequence: 3 }];
  expect(foldRun(journal([started])).unfinishedRestore).toEqual({ entry: 1, body: { sequence: 3 } });
  expect(foldRun(journal([started, ["note"], fatal])).unfinishedRestore).not.toBeNull();
  expect(foldRun(journal([started, ["restore.finished"]])).unfinishedRestore).toBeNull();
  expect(foldRun(journal([started, ["restore.started", { sequence: 2 }]])).unfinishedRestore?.body).toEqual({
    sequence: 2,
  });
});

test("a body that cannot be read is corrupt, with entry and path; it is never guessed at", () => {
  const bad: Line = ["run.ended", { outcome: "fatal" }];
  expect(() => foldRun(journal([["note"], bad]))).toThrow(/Journal entry 2 of run issue-42-k3f9.*\/reason/);
  expect(() => foldRun(journal([["run.parked", { on: "moon", reason: "", until: null }]]))).toThrow(/\/on/);
  expect(() => foldRun(journal([["run.reopened", {}]]))).toThrow(/\/reason/);
});

const anyLine = fc.constantFrom<Line>(
  parked,
  fatal,
  done,
  reopened,
  ["run.unparked"],
  ["restore.started", { sequence: 1 }],
  ["restore.finished"],
  ["note"],
  ["x.own", { outcome: 1 }],
  ["stage.entered"],
);

test("folding in two parts is folding in one", () => {
  fc.assert(
    fc.property(fc.array(anyLine), fc.nat(), (lines, cut) => {
      const entries = journal(lines);
      const at = cut % (entries.length + 1);
      const first = foldRun(entries.slice(0, at));
      expect(entries.slice(at).reduce(stepRun, first)).toEqual(foldRun(entries));
    }),
  );
});

test("an ended run leaves its end only by being re-opened", () => {
  fc.assert(
    fc.property(fc.array(anyLine), anyLine, (lines, next) => {
      const entries = journal([...lines, next]);
      const before = entries.slice(0, -1).reduce(stepRun, NEW_RUN).state;
      if (before.kind !== "done" && before.kind !== "fatal") return;
      const after = foldRun(entries).state;
      expect(after).toEqual(next[0] === "run.reopened" ? { kind: "open" } : before);
    }),
  );
});

test("a fold that was kept is read back as it was, and anything else is corrupt", () => {
  fc.assert(
    fc.property(fc.array(anyLine), (lines) => {
      const fold = foldRun(journal(lines));
      expect(parseRunFold(JSON.parse(JSON.stringify(fold)), "fold")).toEqual(fold);
    }),
  );
  expect(() => parseRunFold({ state: { kind: "asleep" }, unfinishedRestore: null }, "The fold")).toThrow(/state\/kind/);
  expect(() => parseRunFold({ state: { kind: "open" } }, "The fold")).toThrow(/unfinishedRestore/);
});

test("whoever keeps the fold may pass over every kind that does not concern the run", () => {
  for (const kind of [...ENTRY_KINDS, "x.own"] as const)
    if (!concernsRun(kind)) expect(stepRun(NEW_RUN, { ...anEntry, kind })).toBe(NEW_RUN);
  fc.assert(
    fc.property(fc.array(anyLine), (lines) => {
      const entries = journal(lines);
      expect(foldRun(entries.filter(({ kind }) => concernsRun(kind)))).toEqual(foldRun(entries));
    }),
  );
});

test("the target of an unfinished restore", () => {
  expect(unfinishedTarget(NEW_RUN)).toBeNull();
  expect(unfinishedTarget(foldRun(journal([["restore.started", { target: "r@3" }]])))).toBe("r@3");
});

const anEntry = { run: "r", entry: 1, at: "2026-01-01T00:00:00Z", body: {} };

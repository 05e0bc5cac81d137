import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ENTRY_KINDS, type EntryKind } from "./journal.ts";
import type { JsonObject } from "./json.ts";
import type { Lease } from "./lease.ts";
import { type RunState, isEnded } from "./run.ts";
import {
  type RunStatus,
  type StatusFacts,
  NEW_RUN,
  RUN_KINDS,
  isResumable,
  STATUS_KINDS,
  isHeld,
  parseRunFold,
  statusOf,
  statusWord,
  stepRun,
  unfinishedTarget,
} from "./status.ts";

describe("run fold", () => {
  const foldRun = (entries: readonly Parameters<typeof stepRun>[1][]) => entries.reduce(stepRun, NEW_RUN);
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

  const waiting: Line = ["run.waiting", { for: "quota", reason: "rate limit", until: "2026-01-02T00:00:00Z" }];
  const paused: Line = ["run.paused", { reason: "lunch" }];
  const failed: Line = ["run.ended", { outcome: "failed", reason: "max iterations (7) reached" }];
  const aborted: Line = ["run.ended", { outcome: "aborted", reason: "enough" }];
  const done: Line = ["run.ended", { outcome: "done" }];
  const reopened: Line = ["run.reopened", { reason: "forced from 3" }];

  test("a new run is active", () => {
    expect(foldRun([])).toEqual({ state: { kind: "active" }, unfinishedRestore: null });
  });

  test("waiting, paused and continued", () => {
    expect(foldRun(journal([waiting])).state).toEqual({
      kind: "waiting",
      for: "quota",
      reason: "rate limit",
      until: "2026-01-02T00:00:00Z",
    });
    expect(foldRun(journal([waiting, ["run.continued"]])).state).toEqual({ kind: "active" });
    expect(foldRun(journal([waiting, paused])).state).toEqual({ kind: "paused", reason: "lunch" });
    expect(foldRun(journal([paused, ["run.continued"]])).state).toEqual({ kind: "active" });
  });

  test("a crash ends nothing: a run that only stopped writing is active (AIWG: crashed was terminal)", () => {
    expect(foldRun(journal([["run.created"], ["lease.taken"], ["stage.entered"], ["step.started"]])).state).toEqual({
      kind: "active",
    });
  });

  test("the original reason of a failed run is never lost (agentize: 'Fatal stage reached')", () => {
    const later: Line = ["run.ended", { outcome: "failed", reason: "No kernel for stage: fatal" }];
    const state = foldRun(journal([failed, later, waiting, done, ["run.continued"]])).state;
    expect(state).toEqual({ kind: "failed", at: "2026-01-01T00:00:00Z", reason: "max iterations (7) reached" });
  });

  test("resuming a done run does not make it failed (agentize)", () => {
    expect(foldRun(journal([done, failed])).state).toMatchObject({ kind: "done" });
  });

  test("a failed run that was re-opened by force is active, and can end again", () => {
    expect(foldRun(journal([failed, reopened])).state).toEqual({ kind: "active" });
    expect(foldRun(journal([failed, reopened, done])).state).toMatchObject({ kind: "done" });
  });

  test("a restore that did not finish is seen until one does", () => {
    const started: Line = ["restore.started", { sequence: 3 }];
    expect(foldRun(journal([started])).unfinishedRestore).toEqual({ entry: 1, body: { sequence: 3 } });
    expect(foldRun(journal([started, ["note"], failed])).unfinishedRestore).not.toBeNull();
    expect(foldRun(journal([started, ["restore.finished"]])).unfinishedRestore).toBeNull();
    expect(foldRun(journal([started, ["restore.started", { sequence: 2 }]])).unfinishedRestore?.body).toEqual({
      sequence: 2,
    });
  });

  test("an unreadable body is corrupt, with entry and path; it is never guessed", () => {
    const bad: Line = ["run.ended", { outcome: "failed" }];
    expect(() => foldRun(journal([["note"], bad]))).toThrow(/Journal entry 2 of run issue-42-k3f9.*\/reason/);
    expect(() => foldRun(journal([["run.waiting", { for: "moon", reason: "", until: null }]]))).toThrow(/\/for/);
    expect(() => foldRun(journal([["run.reopened", {}]]))).toThrow(/\/reason/);
  });

  const anyLine = fc.constantFrom<Line>(
    waiting,
    paused,
    failed,
    aborted,
    done,
    reopened,
    ["run.continued"],
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
        if (!isEnded(before)) return;
        const after = foldRun(entries).state;
        expect(after).toEqual(next[0] === "run.reopened" ? { kind: "active" } : before);
      }),
    );
  });

  test("a stored fold is read back unchanged, and anything else is corrupt", () => {
    fc.assert(
      fc.property(fc.array(anyLine), (lines) => {
        const fold = foldRun(journal(lines));
        expect(parseRunFold(JSON.parse(JSON.stringify(fold)), "fold")).toEqual(fold);
      }),
    );
    expect(() => parseRunFold({ state: { kind: "asleep" }, unfinishedRestore: null }, "The fold")).toThrow(
      /state\/kind/,
    );
    expect(() => parseRunFold({ state: { kind: "active" } }, "The fold")).toThrow(/unfinishedRestore/);
  });

  test("a consumer of the fold may skip every kind that does not concern the run", () => {
    for (const kind of [...ENTRY_KINDS, "x.own"] as const)
      if (!RUN_KINDS.has(kind)) expect(stepRun(NEW_RUN, { ...anEntry, kind })).toBe(NEW_RUN);
    fc.assert(
      fc.property(fc.array(anyLine), (lines) => {
        const entries = journal(lines);
        expect(foldRun(entries.filter(({ kind }) => RUN_KINDS.has(kind)))).toEqual(foldRun(entries));
      }),
    );
  });

  test("the target of an unfinished restore", () => {
    expect(unfinishedTarget(NEW_RUN)).toBeNull();
    expect(unfinishedTarget(foldRun(journal([["restore.started", { target: "r@3" }]])))).toBe("r@3");
  });

  const anEntry = { run: "r", entry: 1, at: "2026-01-01T00:00:00Z", body: {} };
});

describe("run status", () => {
  const NOW = Date.parse("2026-11-15T12:00:00.000Z");
  const at = (secondsAgo: number): string => new Date(NOW - secondsAgo * 1000).toISOString();

  const lease = (secondsAgo: number, slot?: Lease["slot"]): Lease => ({
    run: "r",
    epoch: 3,
    owner: { token: "t", host: "far", pid: 7, started: "1", boot: "b", label: "holdfast run r" },
    takenAt: at(3600),
    heartbeatAt: at(secondsAgo),
    ...(slot === undefined ? {} : { slot }),
  });

  const STATES: readonly RunState[] = [
    { kind: "active" },
    ...(["you", "quota", "provider", "forge", "budget", "ci", "disk", "session"] as const).map((what): RunState => ({
      kind: "waiting",
      for: what,
      reason: "why",
      until: null,
    })),
    { kind: "waiting", for: "quota", reason: "why", until: at(-60) },
    { kind: "waiting", for: "quota", reason: "why", until: at(60) },
    { kind: "done", at: at(5) },
    { kind: "failed", at: at(5), reason: "why" },
    { kind: "aborted", at: at(5), reason: "why" },
    { kind: "paused", reason: "why" },
  ];
  const HOLDERS: readonly StatusFacts["holder"][] = [
    null,
    ...(["alive", "dead", "unknown"] as const).flatMap((liveness) =>
      [1, 50, 3600, -3600].flatMap((beat) =>
        ([undefined, "working", "waiting"] as const).flatMap((slot) =>
          (liveness === "alive" ? [false, true] : [false]).map((suspended) => ({
            lease: lease(beat, slot),
            liveness,
            suspended,
          })),
        ),
      ),
    ),
  ];
  const SIGNALS = [null, { kind: "pause", reason: "said" }, { kind: "abort", reason: "said" }] as const;
  const STAGES = [null, "iterate", "done", "limit"];

  const all: readonly StatusFacts[] = STATES.flatMap((state) =>
    HOLDERS.flatMap((holder) =>
      SIGNALS.flatMap((signal) =>
        STAGES.flatMap((stage) =>
          [
            [false, false],
            [true, false],
            [false, true],
          ].map(([manual = false, submitted = false]) => ({
            state,
            holder,
            signal,
            stage,
            manual,
            finishing: stage === "done" || stage === "limit",
            now: NOW,
            leaseNow: NOW,
            submitted,
          })),
        ),
      ),
    ),
  );

  const isFresh = ({ holder }: StatusFacts, ms: number): boolean =>
    holder !== null && Math.abs(NOW - Date.parse(holder.lease.heartbeatAt)) <= ms;

  describe(`over all ${all.length} combinations`, () => {
    const judged = all.map((facts) => ({ facts, status: statusOf(facts) }));
    const only = (keep: (facts: StatusFacts) => boolean): readonly RunStatus[] =>
      judged.filter(({ facts }) => keep(facts)).map(({ status }) => status);
    const kinds = (keep: (facts: StatusFacts) => boolean): ReadonlySet<string> =>
      new Set(only(keep).map(({ kind }) => kind));

    test("an end is an end, for any holder and signal", () => {
      expect(kinds(({ state }) => state.kind === "done")).toEqual(new Set(["done"]));
      expect(kinds(({ state }) => state.kind === "aborted")).toEqual(new Set(["aborted"]));
      expect(kinds(({ state }) => state.kind === "failed")).toEqual(new Set(["failed"]));
      for (const { facts, status } of judged)
        if (status.kind === "failed") expect(status.limit).toBe(facts.stage === "limit");
    });

    test("only a live process, or one on another host with a recent heartbeat, is running or queued", () => {
      for (const { facts, status } of judged) {
        if (!isHeld(status)) continue;
        expect(facts.manual).toBe(false);
        expect(facts.holder?.liveness).not.toBe("dead");
        if (facts.holder?.liveness === "unknown") expect(isFresh(facts, 60_000)).toBe(true);
        if (status.kind === "queued") {
          expect(facts.holder).toMatchObject({ liveness: "alive", suspended: false, lease: { slot: "waiting" } });
          expect(isFresh(facts, 35_000)).toBe(true);
        } else expect(status.hostKnown).toBe(facts.holder?.liveness === "alive");
      }
    });

    test("a submitted run without a process is queued unless it waits, is paused or has ended", () => {
      for (const { facts, status } of judged) {
        const waitsForWorker =
          facts.submitted &&
          facts.state.kind === "active" &&
          facts.holder === null &&
          facts.signal === null &&
          facts.stage !== null;
        expect(status.kind === "queued" && status.holder === null).toBe(waitsForWorker);
      }
    });

    test("a hanging or stopped process is running with that detail; a heartbeat from the future is ignored", () => {
      for (const { facts, status } of judged) {
        if (facts.manual || isEnded(facts.state) || facts.holder?.liveness !== "alive") continue;
        const { suspended, lease } = facts.holder;
        const silentSince = isFresh(facts, 35_000) ? null : lease.heartbeatAt;
        if (suspended || silentSince !== null)
          expect(status).toMatchObject({ kind: "running", suspended, silentSince });
        else expect(status.kind).toBe(lease.slot === "waiting" ? "queued" : "running");
      }
    });

    test("a run is crashed only if its process is gone, or on another host without a recent heartbeat", () => {
      for (const { facts, status } of judged) {
        if (status.kind !== "crashed") continue;
        expect(facts.holder?.liveness).toBe(status.certain ? "dead" : "unknown");
        if (!status.certain) expect(isFresh(facts, 60_000)).toBe(false);
        // A run that has not started has no work to lose, and has not crashed.
        expect(facts.stage).not.toBeNull();
        expect(facts.state.kind).toBe("active");
        expect(isResumable(status)).toBe(true);
      }
      expect(kinds(({ holder }) => holder === null)).not.toContain("crashed");
    });

    test("a signal decides the status when no process holds the run, and shows while one does", () => {
      for (const { facts, status } of judged) {
        const { signal, state, holder, manual } = facts;
        if (signal === null || manual || isEnded(state)) continue;
        if (status.kind === "running") expect(status.stopping).toBe(signal.kind);
        if (holder === null || holder.liveness === "dead")
          expect(status.kind).toBe(signal.kind === "pause" ? "paused" : "aborted");
      }
    });

    test("without a holder the journal decides", () => {
      const idle = ({ holder, signal, manual }: StatusFacts): boolean => holder === null && signal === null && !manual;
      for (const { facts, status } of judged) {
        if (!idle(facts)) continue;
        if (facts.state.kind === "waiting") {
          const { kind, for: what, reason, until } = facts.state;
          expect(status).toMatchObject({ kind, for: what, reason, until });
        }
        const started = facts.stage !== null;
        if (facts.state.kind === "active" && !facts.submitted)
          expect(status).toEqual({ kind: "paused", reason: null, started });
        if (facts.state.kind === "paused") expect(status).toEqual({ kind: "paused", reason: "why", started });
      }
      const times = only((facts) => idle(facts) && facts.state.kind === "waiting" && facts.state.until !== null);
      expect(new Set(times.map((one) => one.kind === "waiting" && one.due))).toEqual(new Set([true, false]));
    });

    test("a run without a workflow is saved until it ends", () => {
      const saved = judged.filter(({ facts: { manual, state } }) => manual && !isEnded(state));
      expect(new Set(saved.map(({ status }) => status.kind))).toEqual(new Set(["saved"]));
      for (const { facts, status } of saved)
        if (status.kind === "saved")
          expect(status.holder === null).toBe(facts.holder === null || facts.holder.liveness === "dead");
    });

    test("every status has a word that begins with its kind", () => {
      for (const { status } of judged) expect(statusWord(status)).toMatch(new RegExp(`^${status.kind}\\b`));
      expect(new Set(judged.map(({ status }) => status.kind))).toEqual(new Set(STATUS_KINDS));
    });

    test("a run with a live process cannot be resumed, and any other can", () => {
      for (const { status } of judged) expect(isHeld(status) && isResumable(status)).toBe(false);
    });
  });

  test("time alone changes neither a dead process to alive nor a live one to dead", () => {
    fc.assert(
      fc.property(fc.constantFrom(...all), fc.integer({ min: -1_000_000, max: 1_000_000 }), (facts, later) => {
        const [now, then] = [statusOf(facts), statusOf({ ...facts, now: NOW + later, leaseNow: NOW + later })];
        if (facts.holder?.liveness === "alive") expect(isHeld(now)).toBe(isHeld(then));
        if (facts.holder === null || facts.holder.liveness === "dead") expect(isHeld(then)).toBe(false);
      }),
    );
  });

  test("a wrong clock of this machine does not change which run a process holds", () => {
    fc.assert(
      fc.property(fc.constantFrom(...all), fc.integer({ min: -1e7, max: 1e7 }), (facts, skew) => {
        expect(isHeld(statusOf({ ...facts, now: NOW + skew }))).toBe(isHeld(statusOf(facts)));
      }),
    );
  });
});

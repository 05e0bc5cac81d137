import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Lease } from "../lease/lease.ts";
import type { RunState } from "./run.ts";
import { isAtWork, isResumable, standingOf } from "./run-standing.ts";
import type { RunStanding, StandingFacts } from "./run-standing.ts";

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
  { kind: "open" },
  ...(["person", "quota", "provider", "forge", "budget", "ci", "disk", "session", "pause"] as const).map(
    (on): RunState => ({
      kind: "parked",
      on,
      reason: "why",
      until: null,
    }),
  ),
  { kind: "parked", on: "quota", reason: "why", until: at(-60) },
  { kind: "parked", on: "quota", reason: "why", until: at(60) },
  { kind: "done", at: at(5) },
  { kind: "fatal", at: at(5), reason: "why" },
  { kind: "fatal", at: at(5), reason: "why", cause: "aborted" },
];
const HOLDERS: readonly StandingFacts["holder"][] = [
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
const ORDERS = [null, { kind: "pause", reason: "said" }, { kind: "abort", reason: "said" }] as const;
const STAGES = [null, "iterate", "done", "limit"];
const completing: ReadonlySet<string> = new Set(["done", "limit"]);

const all: readonly StandingFacts[] = STATES.flatMap((state) =>
  HOLDERS.flatMap((holder) =>
    ORDERS.flatMap((order) =>
      STAGES.flatMap((stage) =>
        [false, true].map((manual) => ({ state, holder, order, stage, manual, completing, now: NOW })),
      ),
    ),
  ),
);

const isFresh = ({ holder }: StandingFacts, ms: number): boolean =>
  holder !== null && Math.abs(NOW - Date.parse(holder.lease.heartbeatAt)) <= ms;

describe(`over all ${all.length} combinations`, () => {
  const judged = all.map((facts) => ({ facts, standing: standingOf(facts) }));
  const only = (keep: (facts: StandingFacts) => boolean): readonly RunStanding[] =>
    judged.filter(({ facts }) => keep(facts)).map(({ standing }) => standing);
  const kinds = (keep: (facts: StandingFacts) => boolean): ReadonlySet<string> =>
    new Set(only(keep).map(({ kind }) => kind));

  test("an end is an end, whoever holds it and whatever was said", () => {
    expect(kinds(({ state }) => state.kind === "done")).toEqual(new Set(["completed"]));
    expect(kinds(({ state }) => state.kind === "fatal" && state.cause === "aborted")).toEqual(new Set(["aborted"]));
    expect(
      kinds(({ state, stage }) => state.kind === "fatal" && state.cause === undefined && stage === "limit"),
    ).toEqual(new Set(["limit_reached"]));
    expect(
      kinds(({ state, stage }) => state.kind === "fatal" && state.cause === undefined && stage !== "limit"),
    ).toEqual(new Set(["failed"]));
  });

  test("nothing but a living process with a fresh heartbeat that is not stopped is running, completing or queued", () => {
    for (const { facts, standing } of judged) {
      if (!["running", "completing", "queued"].includes(standing.kind)) continue;
      expect(facts.holder).toMatchObject({ liveness: "alive", suspended: false });
      expect(isFresh(facts, 35_000)).toBe(true);
      expect(facts.holder?.lease.slot === "waiting").toBe(standing.kind === "queued");
      expect(facts.manual).toBe(false);
    }
  });

  test("a process that hangs or was stopped is stale, never running; one in the future is no sign of life", () => {
    const alive = ({ state, holder, manual }: StandingFacts): boolean =>
      !manual && (state.kind === "open" || state.kind === "parked") && holder?.liveness === "alive";
    expect(kinds((facts) => alive(facts) && (facts.holder?.suspended === true || !isFresh(facts, 35_000)))).toEqual(
      new Set(["stale"]),
    );
  });

  test("nobody is called crashed who is alive, nor while another host may still be at it", () => {
    for (const { facts, standing } of judged) {
      if (standing.kind !== "crashed") continue;
      expect(facts.holder).not.toBeNull();
      expect(facts.holder?.liveness).toBe(standing.known === "certain" ? "dead" : "unknown");
      if (standing.known === "presumed") expect(isFresh(facts, 60_000)).toBe(false);
      // A fresh loop has no pid to look at, and is none that crashed.
      expect(facts.stage).not.toBeNull();
      expect(facts.state.kind).toBe("open");
      expect(isResumable(standing)).toBe(true);
    }
    expect(kinds(({ holder }) => holder === null)).not.toContain("crashed");
  });

  test("what was said stands when nobody is at it, and shows while somebody is", () => {
    for (const { facts, standing } of judged) {
      const { order, state, holder, manual } = facts;
      if (order === null || manual || state.kind === "done" || state.kind === "fatal") continue;
      if (standing.kind === "running") expect(standing.ordered).toBe(order.kind);
      if (holder === null || holder.liveness === "dead")
        expect(standing.kind).toBe(order.kind === "pause" ? "paused" : "aborted");
    }
  });

  test("what it waits for is told, unless it is something a person must do", () => {
    const idle = ({ holder, order, manual }: StandingFacts): boolean => holder === null && order === null && !manual;
    const parkedOn = (on: string) =>
      kinds((facts) => idle(facts) && facts.state.kind === "parked" && facts.state.on === on);
    expect(parkedOn("budget")).toEqual(new Set(["budget_exhausted"]));
    expect(parkedOn("pause")).toEqual(new Set(["paused"]));
    for (const on of ["person", "quota", "provider", "forge", "ci", "disk", "session"])
      expect(parkedOn(on)).toEqual(new Set(["waiting"]));
    const times = only((facts) => idle(facts) && facts.state.kind === "parked" && facts.state.until !== null);
    expect(new Set(times.map((one) => one.kind === "waiting" && one.due))).toEqual(new Set([true, false]));
    expect(kinds((facts) => idle(facts) && facts.state.kind === "open")).toEqual(new Set(["new", "stopped"]));
  });

  test("whatever is at work cannot be resumed, and the other way round", () => {
    for (const { standing } of judged) expect(isAtWork(standing) && isResumable(standing)).toBe(false);
  });
});

test("time alone makes no dead process alive, and no living one dead", () => {
  fc.assert(
    fc.property(fc.constantFrom(...all), fc.integer({ min: -1_000_000, max: 1_000_000 }), (facts, later) => {
      const [now, then] = [standingOf(facts), standingOf({ ...facts, now: NOW + later })];
      const living = (one: RunStanding): boolean => isAtWork(one) || one.kind === "queued" || one.kind === "elsewhere";
      if (facts.holder?.liveness === "alive") expect(living(now)).toBe(living(then));
      if (facts.holder === null || facts.holder.liveness === "dead") expect(living(then)).toBe(false);
    }),
  );
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Lease,
  type OwnerLiveness,
  type SlotLease,
  parsePriority,
  planLease,
  planSlot,
  priorityText,
  readPriority,
} from "./lease.ts";
import { chooseSlot } from "./store-commit.ts";

describe("plan lease", () => {
  const NOW = Date.UTC(2026, 0, 1);
  const STALE = 60_000;

  describe("a lease of another owner", () => {
    test.each([
      { what: "a live owner keeps it, whatever the clocks say", liveness: "alive", age: 10 * STALE, kind: "refuse" },
      { what: "a dead owner loses it at once", liveness: "dead", age: 0, kind: "take" },
      { what: "an owner of unknown liveness keeps a fresh one", liveness: "unknown", age: STALE, kind: "refuse" },
      { what: "and loses a stale one", liveness: "unknown", age: STALE + 1, kind: "take" },
      { what: "a clock that runs a little ahead is no offence", liveness: "unknown", age: -STALE, kind: "refuse" },
      { what: "a heartbeat from the future counts as stale", liveness: "unknown", age: -STALE - 1, kind: "take" },
    ] as const)("$what", ({ liveness, age, kind }) => {
      expect(plan({ liveness, heartbeatAt: new Date(NOW - age).toISOString() }).kind).toBe(kind);
    });

    test("an invalid heartbeat time counts as stale", () => {
      expect(plan({ liveness: "unknown", heartbeatAt: "yesterday" }).kind).toBe("take");
    });

    test("is never held longer by a larger clock difference", () => {
      const skew = fc.integer({ min: 0, max: 20 * STALE });
      fc.assert(
        fc.property(skew, skew, fc.boolean(), (near, more, ahead) => {
          const at = (off: number): string => new Date(NOW + (ahead ? off : -off)).toISOString();
          const nearer = plan({ liveness: "unknown", heartbeatAt: at(near) }).kind;
          const further = plan({ liveness: "unknown", heartbeatAt: at(near + more) }).kind;
          expect(nearer === "take" && further === "refuse").toBe(false);
        }),
      );
    });
  });

  test.each(["alive", "dead", "unknown"] as const)(
    "a user's decision takes the lease that was shown to the user, and no later one, from an owner that is %s",
    (liveness) => {
      const held = leaseOf(new Date(NOW).toISOString());
      const common = { epoch: 7, held, token: "ours", liveness, now: NOW, staleAfterMs: STALE };
      expect(planLease({ ...common, over: 7 })).toEqual({ kind: "take", epoch: 8, from: held });
      expect(planLease({ ...common, over: 6 }).kind).toBe("refuse");
    },
  );

  test("an own lease is kept, and a free one is taken, each with the next epoch", () => {
    const lease = leaseOf(new Date(NOW).toISOString());
    const common = { epoch: 7, liveness: "alive", now: NOW, staleAfterMs: STALE } as const;
    expect(planLease({ ...common, held: lease, token: lease.owner.token })).toEqual({ kind: "held_by_us", lease });
    expect(planLease({ ...common, held: null, token: "ours" })).toEqual({ kind: "take", epoch: 8, from: null });
  });

  function plan(params: {
    readonly liveness: OwnerLiveness;
    readonly heartbeatAt: string;
  }): ReturnType<typeof planLease> {
    const { liveness, heartbeatAt } = params;
    return planLease({ epoch: 7, held: leaseOf(heartbeatAt), token: "ours", liveness, now: NOW, staleAfterMs: STALE });
  }

  function leaseOf(heartbeatAt: string): Lease {
    const owner = { token: "theirs", host: "elsewhere", pid: 1, started: null, boot: null, label: "" };
    return { run: "r", epoch: 7, owner, takenAt: heartbeatAt, heartbeatAt };
  }
});

describe("plan slot", () => {
  const NOW = Date.parse("2026-11-15T12:00:00.000Z");
  const STALE = 60_000;

  function one(params: {
    readonly run: string;
    readonly slot: "working" | "waiting";
    readonly liveness?: OwnerLiveness;
    readonly beat?: number;
    readonly since?: number;
    readonly priority?: number;
  }): SlotLease {
    const { run, slot, liveness = "alive", beat = 1000, since = 5000, priority = 0 } = params;
    const lease: Lease = {
      run,
      epoch: 1,
      owner: { token: run, host: "h", pid: 1, started: "1", boot: "b", label: run },
      takenAt: new Date(NOW - since).toISOString(),
      heartbeatAt: new Date(NOW - beat).toISOString(),
      slot,
    };
    return { lease, liveness, priority };
  }

  const plan = (
    others: readonly SlotLease[],
    more: { limit?: number | null; priority?: number; since?: number } = {},
  ) =>
    planSlot({
      run: "us",
      limit: more.limit === undefined ? 2 : more.limit,
      priority: more.priority ?? 0,
      since: new Date(NOW - (more.since ?? 0)).toISOString(),
      others,
      now: NOW,
      staleAfterMs: STALE,
    }).kind;

  test.each([
    ["none", [], "work"],
    ["one at work", [one({ run: "a", slot: "working" })], "work"],
    ["two at work", [one({ run: "a", slot: "working" }), one({ run: "b", slot: "working" })], "full"],
    [
      "one of two died",
      [one({ run: "a", slot: "working" }), one({ run: "b", slot: "working", liveness: "dead" })],
      "work",
    ],
    [
      "one of two is on another host and silent",
      [one({ run: "a", slot: "working" }), one({ run: "b", slot: "working", liveness: "unknown", beat: 61_000 })],
      "work",
    ],
    [
      "one of two is on another host and was heard of",
      [one({ run: "a", slot: "working" }), one({ run: "b", slot: "working", liveness: "unknown" })],
      "full",
    ],
    [
      "one of two hangs, and may continue at any moment",
      [one({ run: "a", slot: "working" }), one({ run: "b", slot: "working", beat: 9e6 })],
      "full",
    ],
    ["our own lease of before", [one({ run: "a", slot: "working" }), one({ run: "us", slot: "working" })], "work"],
  ] as const)("%s of two", (_, others, expected) => {
    expect(plan(others)).toBe(expected);
  });

  test("a free slot goes to the queue, by priority and then by age; a queued run that hangs is skipped", () => {
    const busy = one({ run: "a", slot: "working" });
    const waits = one({ run: "b", slot: "waiting" });
    expect(plan([busy, waits])).toBe("full");
    expect(plan([busy, waits], { priority: 1 })).toBe("work");
    expect(plan([busy, waits], { since: 6000 })).toBe("work");
    expect(plan([busy, waits], { since: 4000 })).toBe("full");
    expect(plan([busy, one({ run: "b", slot: "waiting", priority: 5 })], { since: 9e6, priority: 4 })).toBe("full");
    expect(plan([busy, one({ run: "b", slot: "waiting", beat: 61_000 })])).toBe("work");
    expect(plan([busy, one({ run: "b", slot: "waiting", liveness: "dead" })])).toBe("work");
    expect(plan([busy, waits, one({ run: "c", slot: "working" })], { limit: null })).toBe("work");
  });

  test("for any number of requests in any order, at most the limit is granted, and to those with the highest priority", () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ priority: fc.integer({ min: -2, max: 2 }), since: fc.integer({ min: 1, max: 9 }) }), {
          maxLength: 8,
        }),
        fc.integer({ min: 1, max: 4 }),
        (wishes, limit) => {
          const queue = wishes.map(({ priority, since }, i) =>
            one({ run: `r${i}`, slot: "waiting", priority, since: since * 1000 }),
          );
          let rows: readonly SlotLease[] = queue;
          for (let round = 0; round < queue.length; round += 1)
            rows = rows.map((row) => {
              const slot = chooseSlot({
                run: row.lease.run,
                plan: { kind: "held_by_us", lease: row.lease },
                wish: { limit, wait: true },
                priority: row.priority,
                others: rows,
                now: NOW,
                staleAfterMs: STALE,
              });
              const moved = { ...row, lease: { ...row.lease, slot } };
              rows = rows.map((other) => (other === row ? moved : other));
              return moved;
            });
          const [working, waiting] = (["working", "waiting"] as const).map((slot) =>
            rows.filter(({ lease }) => lease.slot === slot),
          );
          expect(working).toHaveLength(Math.min(limit, queue.length));
          for (const { priority } of waiting ?? [])
            expect(Math.min(...(working ?? []).map((row) => row.priority))).toBeGreaterThanOrEqual(priority);
        },
      ),
    );
  });
});

describe("priority", () => {
  test("words and numbers are parsed, and printed as a user would type them", () => {
    expect([parsePriority("low"), parsePriority("normal"), parsePriority("high"), parsePriority("-3")]).toEqual([
      -10, 0, 10, -3,
    ]);
    for (const odd of ["", "urgent", "1.5", "101", "-101", "1e2", "+1", "toString"])
      expect(parsePriority(odd), odd).toBeUndefined();
    fc.assert(
      fc.property(fc.integer({ min: -100, max: 100 }), (priority) => {
        expect(parsePriority(priorityText(priority))).toBe(priority);
        expect(readPriority(String(priority))).toBe(priority);
      }),
    );
    expect([readPriority(undefined), readPriority("damaged")]).toEqual([0, 0]);
  });
});

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Lease, OwnerLiveness } from "./lease.ts";
import { planLease } from "./plan-lease.ts";

const NOW = Date.UTC(2026, 0, 1);
const STALE = 60_000;

describe("a lease that somebody else holds", () => {
  test.each([
    { what: "a live owner keeps it, whatever the clocks say", liveness: "alive", age: 10 * STALE, kind: "refuse" },
    { what: "a dead owner loses it at once", liveness: "dead", age: 0, kind: "take" },
    { what: "an owner who cannot be told keeps a fresh one", liveness: "unknown", age: STALE, kind: "refuse" },
    { what: "and loses a stale one", liveness: "unknown", age: STALE + 1, kind: "take" },
    { what: "a clock that runs a little ahead is no offence", liveness: "unknown", age: -STALE, kind: "refuse" },
    { what: "a heartbeat from the future counts as stale", liveness: "unknown", age: -STALE - 1, kind: "take" },
  ] as const)("$what", ({ liveness, age, kind }) => {
    expect(plan({ liveness, heartbeatAt: new Date(NOW - age).toISOString() }).kind).toBe(kind);
  });

  test("a heartbeat that is no time at all counts as stale", () => {
    expect(plan({ liveness: "unknown", heartbeatAt: "yesterday" }).kind).toBe("take");
  });

  test("is never held for longer by a clock further off", () => {
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

test("ours stays ours, and nobody's is free, each taking with the next epoch", () => {
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

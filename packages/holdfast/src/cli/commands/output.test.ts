import { expect, test } from "vitest";
import { hostsOfCalls } from "./output.ts";

test("the machines of agent calls are those of the leases under which they began", () => {
  const taken = (host: string) => ({ kind: "lease.taken", body: { owner: { host, pid: 7 }, from: null } }) as const;
  const began = (step: string, estimate: { tokens: number } | null) =>
    ({ kind: "step.started", body: { stageAttempt: 1, step, files: true, estimate } }) as const;
  const journal = [taken("ann"), began("plan", null), taken("bob"), began("agent", { tokens: 1 }), taken("eve")];
  expect(hostsOfCalls(journal, undefined)).toEqual(["bob"]);
  expect(hostsOfCalls(journal, "plan")).toEqual([]);
  expect(hostsOfCalls([...journal, began("review", { tokens: 1 })], undefined)).toEqual(["bob", "eve"]);
  expect(hostsOfCalls([taken("ann"), began("plan", null)], undefined)).toEqual([]);
});

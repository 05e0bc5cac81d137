import { expect, test } from "vitest";
import { workerState } from "./workers.ts";

test("a worker without a recent heartbeat is dead, also one that drained", () => {
  const stateOf = (heartbeatAgeMs: number, draining = false) => workerState({ heartbeatAgeMs, draining }).text;
  expect([stateOf(29_000), stateOf(29_000, true), stateOf(31_000), stateOf(31_000, true)]).toEqual([
    "",
    "draining",
    "dead",
    "dead",
  ]);
});

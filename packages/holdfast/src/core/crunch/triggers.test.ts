import { describe, expect, test } from "vitest";
import { TRIGGERS } from "../checkpoint/trigger.ts";
import type { Trigger } from "../checkpoint/trigger.ts";
import { DEFAULT_SWITCHES, crunchTriggers } from "./triggers.ts";
import type { CrunchTriggers, TriggerSwitches } from "./triggers.ts";

const having = (triggers: CrunchTriggers, what: "taken" | "shown") => TRIGGERS.filter((one) => triggers[one][what]);
const without = (...gone: readonly Trigger[]) => TRIGGERS.filter((one) => !gone.includes(one));
const set = (more: Partial<TriggerSwitches>) => crunchTriggers({ ...DEFAULT_SWITCHES, ...more });

describe("the rows of crunch's table of triggers", () => {
  const both = { taken: true, shown: true };
  test.each<[string, Trigger, object]>([
    ["phase transition: before moving to the next", "stage", both],
    ["batch completion: after each batch", "batch_complete", both],
    ["agent completion: off unless switched on", "agent_complete", { taken: false, shown: false }],
    ["conflict detected: before the debate", "conflict_start", both],
    ["conflict resolved: after the resolution", "conflict_resolved", both],
    ["user interrupt", "interrupt", both],
    ["session timeout", "session_end", both],
    ["asked for", "manual", both],
    ["every ten minutes", "timer", both],
  ])("%s", (_, trigger, expected) => expect(set({})[trigger]).toEqual(expected));
});

test("each switch turns its own trigger, and no other", () => {
  for (const trigger of ["batch_complete", "conflict_start", "conflict_resolved"] as const) {
    const off = set({ on: { ...DEFAULT_SWITCHES.on, [trigger]: false } });
    expect(having(off, "taken")).toEqual(without("agent_complete", trigger));
    expect(having(off, "shown")).toEqual(without("agent_complete", trigger));
  }
  expect(having(set({ on: { ...DEFAULT_SWITCHES.on, agent_complete: true } }), "taken")).toEqual(TRIGGERS);
});

test("the way to the next stage is always saved; the switch says whether it is shown", () => {
  const off = set({ on: { stage: false } });
  expect(off.stage).toEqual({ taken: true, shown: false });
});

test("auto_checkpoint off: what nobody asked for is neither taken by crunch nor shown", () => {
  const off = set({ automatic: false });
  const asked = ["manual", "interrupt", "session_end", "before_restore", "restore", "fork", "import"];
  expect(having(off, "shown")).toEqual(
    asked.toSorted((a, b) => TRIGGERS.indexOf(a as Trigger) - TRIGGERS.indexOf(b as Trigger)),
  );
  expect(having(off, "taken")).toEqual(
    without("batch_complete", "agent_complete", "conflict_start", "conflict_resolved"),
  );
});

test("enabled off: nothing is shown, crunch takes none of its own, and the engine's safety points stand", () => {
  const off = set({ enabled: false });
  expect(having(off, "shown")).toEqual([]);
  expect(having(off, "taken")).toEqual(
    without("batch_complete", "agent_complete", "conflict_start", "conflict_resolved"),
  );
});

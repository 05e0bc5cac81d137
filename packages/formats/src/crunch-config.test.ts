import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { TRIGGERS, type Trigger } from "@holdfast/core/checkpoint";
import { checkRetention, defaultRetention } from "@holdfast/core/retention";
import {
  type CrunchConfig,
  type CrunchTriggers,
  DEFAULT_SWITCHES,
  type TriggerSwitches,
  crunchLocation,
  crunchTriggers,
  defaultCrunchConfig,
  parseCrunchConfig,
} from "./crunch-config.ts";
import { isSeedTrigger } from "./crunch-words.ts";

describe("crunch config", () => {
  const parsed = (text: string): CrunchConfig =>
    parseCrunchConfig({
      path: ".claude/checkpoint-config.yaml",
      bytes: new TextEncoder().encode(text),
      compression: "none",
    });
  const golden = readFileSync(join(import.meta.dirname, "../golden-directory/checkpoint-config.yaml"), "utf8");

  describe("crunch's configuration", () => {
    test("a complete file", () => {
      const config = parsed(golden);
      expect(config).toEqual({
        enabled: true,
        triggers: crunchTriggers(DEFAULT_SWITCHES),
        retention: {
          ...defaultRetention,
          defaultKeep: { keep: "all", per: "run" },
          onSuccess: "by_rules",
          perTrigger: {
            stage: { keep: "all", per: "stage" },
            batch_complete: { keep: 3, per: "stage" },
            agent_complete: { keep: 1, per: "stage" },
            conflict_resolved: { keep: "all", per: "run" },
            interrupt: { keep: 1, per: "run" },
            manual: { keep: "all", per: "run" },
            conflict_start: { keep: "all", per: "run" },
            session_end: { keep: 1, per: "run" },
          },
          maxAgeDays: null,
          onFailure: "by_rules",
          maxBytes: 52_428_800,
        },
        location: ".claude/crunch/{issue}/checkpoints",
        compress: false,
        remarks: [],
      });
      checkRetention(config.retention);
    });

    test("missing settings have the values of the complete file", () => {
      for (const least of ["checkpoint: {}\n", "checkpoint:\n", "checkpoint:\n  retention:\n  storage:\n"]) {
        expect(parsed(least)).toEqual(parsed(golden));
      }
    });

    test("-1 keeps all, 0 none, and N keeps N", () => {
      const { perTrigger } = parsed(
        "checkpoint: {retention: {batch_complete: -1, manual: 0, user_interrupt: 7, session_end: 2}}\n",
      ).retention;
      expect(perTrigger).toMatchObject({
        batch_complete: { keep: "all" },
        manual: { keep: 0 },
        interrupt: { keep: 7 },
        session_end: { keep: 2 },
      });
    });

    test("a missing file is the same as an empty one", () => {
      expect(defaultCrunchConfig()).toEqual(parsed("checkpoint: {}\n"));
    });

    test.each([
      ["enabled: false", { ...DEFAULT_SWITCHES, enabled: false }],
      ["auto_checkpoint: false", { ...DEFAULT_SWITCHES, automatic: false }],
      ["checkpoint_triggers: {phase_transition: false}", { on: { ...DEFAULT_SWITCHES.on, stage: false } }],
      ["checkpoint_triggers: {batch_complete: false}", { on: { ...DEFAULT_SWITCHES.on, batch_complete: false } }],
      ["checkpoint_triggers: {agent_complete: true}", { on: { ...DEFAULT_SWITCHES.on, agent_complete: true } }],
      [
        "checkpoint_triggers: {conflict_events: false}",
        { on: { ...DEFAULT_SWITCHES.on, conflict_start: false, conflict_resolved: false } },
      ],
      [
        "checkpoint_triggers: {conflict_start: true, conflict_events: false}",
        { on: { ...DEFAULT_SWITCHES.on, conflict_resolved: false } },
      ],
      [
        "checkpoint_triggers: {timer: false, user_interrupt: false}",
        { on: { ...DEFAULT_SWITCHES.on, timer: false, interrupt: false } },
      ],
    ])("%s", (text, switches) => {
      expect(parsed(`checkpoint: {${text}}\n`).triggers).toEqual(crunchTriggers({ ...DEFAULT_SWITCHES, ...switches }));
    });

    test("compress and a size", () => {
      expect(parsed("checkpoint: {storage: {compress: true, max_size_mb: 0.5}}\n")).toMatchObject({
        compress: true,
        retention: { maxBytes: 524_288 },
      });
    });

    test("unknown keys cause a remark", () => {
      const text =
        "checkpoint: {colour: red, retention: {sometimes: 3}, checkpoint_triggers: {moon: true}}\nother: 1\n";
      expect(
        parsed(text)
          .remarks.map((remark) => remark.path)
          .toSorted(),
      ).toEqual([
        "/checkpoint/checkpoint_triggers/moon",
        "/checkpoint/colour",
        "/checkpoint/retention/sometimes",
        "/other",
      ]);
    });

    test.each([
      ["checkpoint: 3\n", "/checkpoint", 1],
      ["checkpoint:\n  enabled: 'yes'\n", "/checkpoint/enabled", 2],
      ["checkpoint:\n  retention:\n    manual: -2\n", "/checkpoint/retention/manual", 3],
      ["checkpoint:\n  retention: {manual: 1.5}\n", "/checkpoint/retention/manual", 2],
      ["checkpoint:\n  retention: {manual: all}\n", "/checkpoint/retention/manual", 2],
      ["checkpoint: {storage: {max_size_mb: -1}}\n", "/checkpoint/storage/max_size_mb", 1],
      ["checkpoint: {storage: {location: ../../etc}}\n", "/checkpoint/storage/location", 1],
      ["checkpoint: {storage: {location: /etc}}\n", "/checkpoint/storage/location", 1],
      ["checkpoint: {storage: {location: 'C:\\x'}}\n", "/checkpoint/storage/location", 1],
      ["checkpoint: {storage: {location: .git/hooks}}\n", "/checkpoint/storage/location", 1],
      ["checkpoint: {storage: {location: 'a/{branch}'}}\n", "/checkpoint/storage/location", 1],
      ["checkpoint: {storage: {location: ''}}\n", "/checkpoint/storage/location", 1],
    ])("%j is refused at %s", (text, path, line) => {
      expect(() => parsed(text)).toThrow(
        expect.objectContaining({ code: "FORMAT_INVALID", data: expect.objectContaining({ path, line }) }),
      );
    });

    test("the directory of an issue", () => {
      expect(crunchLocation(".claude/crunch/{issue}/checkpoints", 42)).toBe(".claude/crunch/42/checkpoints");
      expect(crunchLocation("x/{issue_number}", null)).toBe("x/none");
      expect(() => crunchLocation("../{issue}", 1)).toThrow(expect.objectContaining({ code: "USAGE" }));
    });
  });
});

describe("triggers", () => {
  const having = (triggers: CrunchTriggers, what: "taken" | "shown") => TRIGGERS.filter((one) => triggers[one][what]);
  const without = (...gone: readonly Trigger[]) => TRIGGERS.filter((one) => !gone.includes(one));
  const words = (all: readonly Trigger[]) => all.filter((one) => isSeedTrigger(one));
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
      ["manual", "manual", both],
      ["every ten minutes: saved, but crunch has no name for it", "timer", { taken: true, shown: false }],
    ])("%s", (_, trigger, expected) => expect(set({})[trigger]).toEqual(expected));
  });

  test("each switch changes its own trigger and no other", () => {
    for (const trigger of ["batch_complete", "conflict_start", "conflict_resolved"] as const) {
      const off = set({ on: { ...DEFAULT_SWITCHES.on, [trigger]: false } });
      expect(having(off, "taken")).toEqual(without("agent_complete", trigger));
      expect(having(off, "shown")).toEqual(words(without("agent_complete", trigger)));
    }
    expect(having(set({ on: { ...DEFAULT_SWITCHES.on, agent_complete: true } }), "taken")).toEqual(TRIGGERS);
  });

  test("the transition to the next stage is always saved; the switch decides whether it is shown", () => {
    const off = set({ on: { stage: false } });
    expect(off.stage).toEqual({ taken: true, shown: false });
  });

  test("auto_checkpoint off: unrequested checkpoints are neither taken by crunch nor shown", () => {
    const off = set({ automatic: false });
    const asked = ["manual", "interrupt", "session_end", "restore", "fork", "import"];
    expect(having(off, "shown")).toEqual(
      asked.toSorted((a, b) => TRIGGERS.indexOf(a as Trigger) - TRIGGERS.indexOf(b as Trigger)),
    );
    expect(having(off, "taken")).toEqual(
      without("batch_complete", "agent_complete", "conflict_start", "conflict_resolved"),
    );
  });

  test("enabled off: nothing is shown, crunch takes no checkpoints, and the engine still takes its safety checkpoints", () => {
    const off = set({ enabled: false });
    expect(having(off, "shown")).toEqual([]);
    expect(having(off, "taken")).toEqual(
      without("batch_complete", "agent_complete", "conflict_start", "conflict_resolved"),
    );
  });
});

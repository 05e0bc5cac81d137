import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Json, type JsonObject, deepFreeze } from "@holdfast/core/json";
import {
  SAMPLE_AT,
  sampleCapture,
  sampleConflict,
  samplePosition,
  sampleRequest,
  sampleResponse,
  sampleTeam,
} from "@holdfast/test-support/workflows/crunch-sample";
import { defaultCrunchSettings } from "./default-settings.ts";
import { pendingMessages } from "./message-log.ts";
import type { Resolution } from "./messages.ts";
import {
  type CrunchEvent,
  type CrunchState,
  initialCrunchState,
  parseCrunchEvent,
  parseCrunchState,
  reduceCrunch,
} from "./state.ts";
import { memberCounts } from "./team.ts";

const conflict = sampleConflict({ "dev-go": "a", reviewer: "b" });
const resolution: Resolution = {
  how: "vote",
  choice: "a",
  winner: "dev-go",
  reasoning: "",
  conditions: [],
  scores: [{ agent: "dev-go", choice: "a", score: 0.8, evidenceCount: 0 }],
  vetoApplied: false,
  userOverride: false,
  dissent: [{ agent: "reviewer", choice: "b", note: "" }],
  at: SAMPLE_AT,
  knowledge: null,
};
const request = sampleRequest("r");

/** At least one of each kind; a missing kind does not compile. */
const EVENTS: { readonly [K in CrunchEvent["kind"]]: readonly Extract<CrunchEvent, { readonly kind: K }>[] } = {
  settings_read: [{ kind: "settings_read", settings: defaultCrunchSettings }],
  templates_read: [{ kind: "templates_read", templates: { node: "{{about}}" } }],
  issue_read: [
    {
      kind: "issue_read",
      issue: { number: 42, title: "t", body: "b", labels: ["state:enrich"], state: "open", updatedAt: SAMPLE_AT },
    },
  ],
  branch_made: [{ kind: "branch_made", branch: "feature/issue-42-t", base: { branch: "main", commit: "c" } }],
  phase_entered: [
    { kind: "phase_entered", phase: "implementing", at: SAMPLE_AT },
    { kind: "phase_entered", phase: "e2e", at: "2026-01-14T11:00:00.000Z" },
    { kind: "phase_entered", phase: "implementing", at: "2026-01-14T12:00:00.000Z" },
  ],
  team_composed: [{ kind: "team_composed", team: sampleTeam() }],
  task_moved: [
    { kind: "task_moved", task: "t1", agent: "reviewer", phase: "docs", status: "pending" },
    { kind: "task_moved", task: "t1", agent: "reviewer", phase: "docs", status: "completed" },
  ],
  output_delivered: [
    {
      kind: "output_delivered",
      output: {
        agent: "techwriter",
        action: "document",
        node: "document",
        phase: "docs",
        completedAt: SAMPLE_AT,
        summary: "s",
        location: null,
      },
    },
  ],
  message_sent: [
    { kind: "message_sent", message: request },
    { kind: "message_sent", message: sampleResponse("a", request.id) },
    { kind: "message_sent", message: sampleResponse("b", request.id) },
  ],
  message_delivered: [{ kind: "message_delivered", id: request.id }],
  message_withdrawn: [{ kind: "message_withdrawn", id: request.id, why: "w" }],
  conflict_detected: [{ kind: "conflict_detected", conflict }],
  positions_taken: [
    { kind: "positions_taken", conflict: conflict.id, round: 1, positions: [samplePosition("dev-go", "a")] },
    { kind: "positions_taken", conflict: conflict.id, round: 2, positions: [samplePosition("reviewer", "a")] },
  ],
  conflict_escalated: [
    {
      kind: "conflict_escalated",
      conflict: conflict.id,
      escalation: { reason: "close_vote", question: "q", options: ["a", "b"], at: SAMPLE_AT },
    },
  ],
  conflict_resolved: [{ kind: "conflict_resolved", conflict: conflict.id, resolution }],
  knowledge_injected: [{ kind: "knowledge_injected", phase: "enrich", entries: [], at: SAMPLE_AT }],
  capture_planned: [
    { kind: "capture_planned", capture: sampleCapture("n", "x") },
    { kind: "capture_planned", capture: sampleCapture("m", "x") },
  ],
  knowledge_captured: [
    { kind: "knowledge_captured", name: "n", at: SAMPLE_AT },
    { kind: "knowledge_captured", name: "m", at: SAMPLE_AT },
  ],
  branch_followed: [{ kind: "branch_followed" }],
  pull_request_opened: [{ kind: "pull_request_opened", pullRequest: { number: 7, url: "u" } }],
};
const ALL: readonly CrunchEvent[] = Object.values(EVENTS).flat();

function fold(events: readonly CrunchEvent[], from: CrunchState = initialCrunchState): CrunchState {
  return events.reduce(reduceCrunch, from);
}

test.each(ALL)("$kind is JSON that the journal gives back as it was", (event) => {
  const back = JSON.parse(JSON.stringify(event)) as Json;
  expect(parseCrunchEvent(back)).toEqual(event);
});

test.each(Object.keys(EVENTS))("%s with a missing member is refused with its path", (kind) => {
  const event = ALL.find((one) => one.kind === kind);
  for (const name of Object.keys(event ?? {})) {
    const { [name]: _, ...rest } = JSON.parse(JSON.stringify(event)) as Record<string, Json>;
    expect(() => parseCrunchEvent(rest)).toThrow(expect.objectContaining({ code: "STORE_CORRUPT" }));
  }
});

test("for any events: the same events make the same state, which is JSON, and the earlier one is not changed", () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...ALL), { maxLength: 40 }), (events) => {
      let state = deepFreeze(initialCrunchState);
      for (const event of events) state = deepFreeze(reduceCrunch(state, event));
      expect(fold(events)).toEqual(state);
      const stored = JSON.parse(JSON.stringify(state)) as JsonObject;
      expect(parseCrunchState(stored)).toEqual(state);
      expect(state.conflicts.length).toBeLessThanOrEqual(1);
      expect(state.knowledge.entries.length).toBeLessThanOrEqual(1);
      for (const one of state.conflicts) expect(one.rounds.length).toBeLessThanOrEqual(3);
    }),
  );
});

test("killed anywhere and folded from there, it is the same state", () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...ALL), { maxLength: 40 }), fc.nat(40), (events, cut) => {
      const checkpoint = JSON.parse(JSON.stringify(fold(events.slice(0, cut)))) as JsonObject;
      expect(fold(events.slice(cut), parseCrunchState(checkpoint))).toEqual(fold(events));
    }),
  );
});

test("an event changes the state, is already applied, or is refused with an error", () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...ALL), { maxLength: 20 }), fc.constantFrom(...ALL), (events, event) => {
      const before = fold(events);
      const after = reduceCrunch(before, event);
      const again = reduceCrunch(after, event);
      const refusals =
        after.refused.length - before.refused.length + after.messages.refused.length - before.messages.refused.length;
      if (refusals === 0) {
        // An applied event has taken effect: applied again it may be refused, but changes nothing else.
        expect({ ...again, refused: after.refused }).toEqual(after);
      } else
        expect({
          ...after,
          refused: before.refused,
          messages: { ...after.messages, refused: before.messages.refused },
        }).toEqual(before);
    }),
  );
});

describe("single events", () => {
  test("stage attempts of a phase are counted, and the same one counts once", () => {
    const state = fold([...EVENTS.phase_entered, ...EVENTS.phase_entered]);
    expect(state.phases.map(({ phase, attempt }) => [phase, attempt])).toEqual([
      ["implementing", 1],
      ["e2e", 1],
      ["implementing", 2],
    ]);
  });

  test("a task that is moved twice counts once, and a new team keeps finished tasks", () => {
    const state = fold([...EVENTS.team_composed, ...EVENTS.task_moved, ...EVENTS.task_moved, ...EVENTS.team_composed]);
    expect(state.team === null ? null : memberCounts(state.team, "reviewer")).toMatchObject({
      completed: 1,
      pending: 0,
    });
    expect(fold(EVENTS.task_moved).refused).toMatchObject([{ why: "there is no team" }, { subject: "t1" }]);
  });

  test("ids alone cannot be sent again: pending ones are whole after a crash, and answered ones are not sent again", () => {
    const [sent, answered] = EVENTS.message_sent;
    if (sent === undefined || answered === undefined) throw new Error("two events");
    const crashed = parseCrunchState(JSON.parse(JSON.stringify(fold([sent]))) as JsonObject);
    expect(pendingMessages(crashed.messages)).toEqual([request]);
    expect(pendingMessages(fold([answered], crashed).messages)).toEqual([]);
  });

  test("a debate goes round by round, and only its participants answer, once each", () => {
    const [first, second] = EVENTS.positions_taken;
    if (first === undefined || second === undefined) throw new Error("two rounds");
    const begun = fold(EVENTS.conflict_detected);
    expect(fold([second], begun).refused).toMatchObject([{ why: "it stands after round 0" }]);
    expect(fold([first, first, second], begun)).toMatchObject({ conflicts: [{ rounds: [[{}], [{}]] }], refused: [{}] });
    const stranger = { ...first, positions: [samplePosition("techwriter", "a")] };
    const twice = { ...first, positions: [samplePosition("dev-go", "a"), samplePosition("dev-go", "b")] };
    expect(fold([stranger, twice], begun)).toMatchObject({ conflicts: [{ rounds: [] }], refused: [{}, {}] });
  });

  test("a conflict is resolved once", () => {
    const [resolved] = EVENTS.conflict_resolved;
    if (resolved === undefined) throw new Error("a resolution");
    const other = { ...resolved, resolution: { ...resolution, choice: "b" } };
    const state = fold([...EVENTS.conflict_detected, resolved, other, ...EVENTS.conflict_escalated]);
    expect(state).toMatchObject({
      conflicts: [{ resolution: { choice: "a" }, escalation: null }],
      refused: [
        { event: "conflict_resolved", why: expect.stringContaining("resolved") },
        { event: "conflict_escalated" },
      ],
    });
  });

  test("an output that is delivered again replaces the one before", () => {
    const [delivered] = EVENTS.output_delivered;
    if (delivered === undefined) throw new Error("an output");
    const newer = { ...delivered, output: { ...delivered.output, summary: "newer" } };
    expect(fold([delivered, newer]).outputs).toMatchObject([{ summary: "newer" }]);
    // A node may be called the same in two phases.
    const elsewhere: CrunchEvent = { ...delivered, output: { ...delivered.output, phase: "e2e", summary: "of e2e" } };
    expect(fold([delivered, elsewhere]).outputs).toMatchObject([{ summary: "s" }, { summary: "of e2e" }]);
  });
});

test.each([
  [
    { ...initialCrunchState, messages: { records: [{ message: {}, status: {} }], refused: [] } },
    "/messages/records/0/message/type",
  ],
  [{ ...initialCrunchState, phases: [{ phase: "validation", startedAt: "", attempt: 1 }] }, "/phases/0/phase"],
  [{}, "/issue"],
])("a damaged state is reported with its path: %#", (values, path) => {
  expect(() => parseCrunchState(values as unknown as JsonObject)).toThrow(
    expect.objectContaining({ code: "STORE_CORRUPT", data: expect.objectContaining({ path }) }),
  );
});

import { describe, expect, test } from "vitest";
import type { ConversationPlane, Planes } from "./checkpoint.ts";
import { emptyPlanes } from "./checkpoint.ts";
import type { StageAttempt } from "./position.ts";
import { conversationRefusal, planesAfterRestore } from "./save.ts";

const AT = "2026-01-01T00:00:00.000Z";
const talk = (session: string | null): ConversationPlane => ({
  agent: "toy",
  session,
  transcript: null,
  lastMessage: null,
});

function planes(name: string, attempt: Partial<StageAttempt> = {}, more: Partial<Planes> = {}): Planes {
  const empty = emptyPlanes({ workflow: "toy" });
  const position = {
    ...empty.position,
    stage: "work",
    stageAttempt: { number: 1, steps: {}, failures: {}, ...attempt },
  };
  const spent = { tokens: name.length, microUsd: 0, milliseconds: 0 };
  return {
    ...empty,
    context: { values: { name }, tokens: {} },
    extensions: { name },
    conversation: talk(`s-${name}`),
    ...more,
    position: { ...position, iteration: name.length, budget: { ...position.budget, spent }, ...more.position },
  };
}

const running = { edit: { files: true, estimate: null, base: 1 } };
const target = planes("then", { sessions: { edit: "s-then", review: "s-old" } });
const newest = planes("newest", { number: 4, running, sessions: { edit: "s-newest" } });
const after = (only: "files" | "conversation" | "state" | null, paths: readonly string[] | null = null): Planes =>
  planesAfterRestore({ only, paths, target, newest, at: AT });

describe("planes after a restore, by scope", () => {
  test("all: the target's, in a new stage attempt, with the conversation rewound", () => {
    const all = after(null);
    expect(all.context).toEqual(target.context);
    expect(all.conversation).toEqual({ ...target.conversation, rewound: "restore" });
    expect(all.position.stageAttempt).toEqual({
      number: 5,
      steps: {},
      failures: {},
      sessions: target.position.stageAttempt.sessions,
    });
  });

  test("files and paths: everything is the newest's", () => {
    expect(after("files", ["."])).toBe(newest);
    expect(after(null, ["a.txt"])).toBe(newest);
  });

  test("state: position and values are the target's; the conversation, and sessions that moved on, are not", () => {
    const state = after("state");
    expect([state.context, state.extensions]).toEqual([target.context, target.extensions]);
    expect(state.position.iteration).toBe(target.position.iteration);
    expect(state.conversation).toEqual(newest.conversation);
    expect(state.position.stageAttempt).toEqual({ number: 5, steps: {}, failures: {} });
    const same = planes("then", { sessions: { edit: "s-newest" } });
    const kept = planesAfterRestore({ only: "state", paths: null, target: same, newest, at: AT });
    expect(kept.position.stageAttempt.sessions).toEqual({ edit: "s-newest" });
  });

  test("conversation: the unfinished call gets the target's session; position, values and the step in flight stay", () => {
    const restored = after("conversation");
    expect(restored.conversation).toEqual({ ...target.conversation, rewound: "restore" });
    expect(restored.context).toEqual(newest.context);
    const { stageAttempt } = newest.position;
    expect(restored.position).toEqual({
      ...newest.position,
      stageAttempt: { ...stageAttempt, sessions: { edit: "s-then" } },
    });
  });

  test.each([null, "files", "conversation", "state"] as const)(
    "%s: budget, effects and rights are never restored",
    (only) => {
      const [then, now] = [target, newest].map((one, at) => ({
        ...one,
        position: { ...one.position, yolo: at === 0 },
        effects: at === 0 ? {} : { "r/s/p": "pin" },
      }));
      if (then === undefined || now === undefined) throw new Error("no planes");
      const params = { only, paths: only === "files" ? ["."] : null, target: then, newest: now, at: AT };
      const { position, effects } = planesAfterRestore(params as Parameters<typeof planesAfterRestore>[0]);
      expect(position.budget).toEqual(newest.position.budget);
      expect(position.yolo).toBe(false);
      expect(effects).toEqual({ "r/s/p": "pin" });
    },
  );
});

test("restoring only a conversation is refused where no call would open it", () => {
  expect(conversationRefusal(target, newest)).toBeNull();
  expect(conversationRefusal({ ...target, conversation: null }, newest)).toBe("it holds no agent session");
  expect(conversationRefusal(target, planes("newest"))).toMatch(/^the call of session s-then has ended/);
  expect(conversationRefusal(target, planes("newest", {}, { conversation: talk("s-then") }))).toBeNull();
});

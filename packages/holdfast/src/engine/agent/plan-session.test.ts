import { expect, test } from "vitest";
import type { ConversationPlane } from "../../core/checkpoint/checkpoint.ts";
import type { AgentSessions } from "../../ports/agent.ts";
import { createBenchAgent } from "../../testing/work-bench.ts";
import { planSession } from "./plan-session.ts";

const sessions: AgentSessions = { read: async () => null, write: async () => undefined };
const TEXT = "m-1 m-2";
const KEPT: ConversationPlane = {
  agent: "toy",
  session: "s",
  transcript: { digest: "d", bytes: TEXT.length, text: TEXT },
  lastMessage: "m-2",
};

function plan(params: {
  readonly rewound?: "restore" | "fork";
  readonly forks?: boolean;
  readonly records?: boolean;
  readonly there: string | null;
  readonly kept?: Partial<ConversationPlane>;
}): string {
  const { rewound, forks = false, records = true, there } = params;
  const agent = createBenchAgent("toy", () => ({}), { forkAtMessage: forks }, records ? sessions : null);
  const kept = { ...KEPT, ...params.kept, ...(rewound === undefined ? {} : { rewound }) };
  const made = planSession({ agent, kept, session: "s", there });
  return made.kind === "fork" ? `fork at ${made.at}${made.text === null ? "" : " after put_back"}` : made.kind;
}

const AHEAD = `${TEXT} m-3`;

test("nobody went back: the agent's own record is good, ours is put back where it has none", () => {
  expect(plan({ there: AHEAD })).toBe("go_on");
  expect(plan({ there: null })).toBe("put_back");
  expect(plan({ there: null, records: false })).toBe("go_on");
  expect(plan({ there: null, kept: { session: "other" } })).toBe("go_on");
  expect(plan({ there: null, kept: { transcript: null } })).toBe("go_on");
});

test("restored: from the message where the agent can, else with the record put back, else handed over", () => {
  const rewound = "restore";
  expect(plan({ rewound, there: AHEAD, forks: true })).toBe("fork at m-2");
  expect(plan({ rewound, there: null, forks: true })).toBe("put_back");
  expect(plan({ rewound, there: "another history", forks: true })).toBe("put_back");
  expect(plan({ rewound, there: TEXT, forks: true })).toBe("go_on");
  expect(plan({ rewound, there: AHEAD })).toBe("put_back");
  expect(plan({ rewound, there: AHEAD, kept: { transcript: null } })).toBe("hand_over");
  expect(plan({ rewound, there: null, records: false })).toBe("hand_over");
  expect(plan({ rewound, there: AHEAD, kept: { session: "other" } })).toBe("hand_over");
});

test("forked: the parent's session is never written into", () => {
  const rewound = "fork";
  expect(plan({ rewound, there: TEXT, forks: true })).toBe("fork at m-2");
  expect(plan({ rewound, there: null, forks: true })).toBe("fork at m-2 after put_back");
  expect(plan({ rewound, there: TEXT })).toBe("hand_over");
  expect(plan({ rewound, there: null, forks: true, kept: { lastMessage: null } })).toBe("hand_over");
});

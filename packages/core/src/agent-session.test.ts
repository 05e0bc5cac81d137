import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type TestWorktree, startTestRunInWorktree } from "@holdfast/test-support/core/toy-worktree";
import { ID, begin, createBenchAgent, define } from "@holdfast/test-support/core/work-bench";
import { planSession } from "./agent-session.ts";
import { messagesIn } from "./conversation.ts";
import type { Agent, AgentSessions, AgentTask } from "./agent.ts";
import type { ConversationPlane } from "./checkpoint.ts";
import { RunHandle } from "./run-handle.ts";

describe("said in", () => {
  const lines = (...entries: readonly unknown[]): string =>
    entries.map((entry) => `${JSON.stringify(entry)}\n`).join("");

  test("reads the format of each agent, and leaves out its input", () => {
    const claude = lines(
      { type: "user", message: { role: "user", content: "the task" } },
      { type: "assistant", message: { role: "assistant", content: [{ type: "text", text: "I look." }] } },
      {
        type: "assistant",
        message: { role: "assistant", content: [{ type: "tool_use", name: "Bash", input: { command: "ls" } }] },
      },
      { type: "user", message: { role: "user", content: [{ type: "tool_result", content: "a.txt" }] } },
    );
    const codex = lines(
      {
        type: "response_item",
        payload: { type: "message", role: "user", content: [{ type: "input_text", text: "task" }] },
      },
      {
        type: "response_item",
        payload: { type: "message", role: "assistant", content: [{ type: "output_text", text: "I look." }] },
      },
      { type: "response_item", payload: { type: "function_call", name: "Bash", arguments: '{"command":"ls"}' } },
      { type: "response_item", payload: { type: "function_call_output", output: "a.txt" } },
    );
    const gemini = lines(
      { type: "user", content: [{ text: "the task" }] },
      { type: "gemini", content: "I look.", toolCalls: [{ name: "Bash", args: { command: "ls" } }] },
      { message: { role: "user", parts: [{ functionResponse: { response: "a.txt" } }] } },
    );
    for (const transcript of [claude, codex, gemini])
      expect(messagesIn(transcript, { maxCharacters: 1000 })).toEqual([
        { who: "agent", text: "I look." },
        { who: "tool call", text: 'Bash {"command":"ls"}' },
        { who: "tool result", text: "a.txt" },
      ]);
    expect(messagesIn("one\ntwo\n", { maxCharacters: 1000 })).toEqual([
      { who: "output", text: "one" },
      { who: "output", text: "two" },
    ]);
  });

  test("never more than requested, the end rather than the beginning, for any transcript", () => {
    const arbitrary = fc.oneof(
      fc.string(),
      fc.array(fc.json()).map((entries) => entries.join("\n")),
    );
    fc.assert(
      fc.property(arbitrary, fc.nat(500), (transcript, maxCharacters) => {
        const said = messagesIn(transcript, { maxCharacters });
        expect(said.reduce((sum, { text }) => sum + text.length, 0)).toBeLessThanOrEqual(maxCharacters);
      }),
    );
    expect(messagesIn(`${"x".repeat(90)}\nlast\n`, { maxCharacters: 4 })).toEqual([{ who: "output", text: "last" }]);
  });
});

describe("plan session", () => {
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

  test("without a restore: the agent's own record is used, ours is written back if it has none", () => {
    expect(plan({ there: AHEAD })).toBe("go_on");
    expect(plan({ there: null })).toBe("put_back");
    expect(plan({ there: null, records: false })).toBe("go_on");
    expect(plan({ there: null, kept: { session: "other" } })).toBe("go_on");
    expect(plan({ there: null, kept: { transcript: null } })).toBe("go_on");
  });

  test("restored: from the message if the agent can, else with the record written back, else with a hand-over", () => {
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
});

describe("rewound session", () => {
  const CALL = { role: "impl", model: null, yolo: false } as const;

  interface Rewound extends TestWorktree {
    /** Session, message to fork at, and prompt of each call. */
    readonly calls: readonly string[];
    readonly texts: Map<string, string>;
    readonly workflow: ReturnType<typeof define>;
    readonly handle: RunHandle;
    /** After the first of two calls in one session. */
    readonly sequence: number;
  }

  /** Calls an agent twice in one session; each record is the prompts that it was given. */
  async function rewound(capabilities: Partial<Agent["capabilities"]>): Promise<Rewound> {
    const texts = new Map<string, string>();
    const calls: string[] = [];
    const run = (task: AgentTask) => {
      calls.push([task.session, task.forkAt ?? "-", task.prompt].join(" "));
      const isNew = task.session === null || (task.forkAt ?? null) !== null;
      const session = isNew ? `s-${texts.size + 1}` : (task.session ?? "");
      task.onEvent({ kind: "session", id: session });
      texts.set(session, `${texts.get(session) ?? ""}{"id":"${session}-${task.prompt.slice(0, 3)}"}\n`);
      return { text: "done", session };
    };
    const toy = await startTestRunInWorktree(
      run,
      { resume: true, ...capabilities },
      {
        read: async ({ session }) => {
          const text = texts.get(session);
          const lastMessage = text?.match(/s-\d-\w+(?=[^\n]*\n$)/)?.[0] ?? null;
          return text === undefined ? null : { text, lastMessage };
        },
        write: async ({ session, text }) => void texts.set(session, text),
      },
    );
    let parks = 0;
    const workflow = define({
      work: async ({ agent, wait }) => {
        const { session } = await agent({ ...CALL, name: "one", prompt: "one" });
        if (parks++ === 0) await wait({ for: "you", reason: "wait" });
        await agent({ ...CALL, name: "two", prompt: "two", session });
        if (parks++ === 2) await wait({ for: "you", reason: "wait" });
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(toy.adapters, workflow, toy.workspace);
    await toy.go(workflow);
    const sequence = (await toy.store.latest(ID))?.sequence ?? 0;
    await toy.go(workflow);
    const { adapters, store } = toy;
    const handle = new RunHandle(adapters, await store.createRun({ id: ID, workflow: "toy", work: { kind: "none" } }));
    return { ...toy, calls, texts, workflow, handle, sequence };
  }

  const notesOf = async ({ store }: TestWorktree, run: string): Promise<readonly unknown[]> =>
    (await Array.fromAsync(store.readJournal({ run })))
      .filter(({ kind }) => kind === "note")
      .map(({ body }) => body["text"]);

  test("restored, an agent that can rewind continues from the last message of the checkpoint, in a new session; the old one stays", async () => {
    const toy = await rewound({ forkAtMessage: true });
    await toy.handle.restore({ sequence: toy.sequence });
    const ahead = toy.texts.get("s-1");
    await toy.go(toy.workflow);
    expect(toy.calls).toEqual([" - one", "s-1 - two", "s-1 s-1-one two"]);
    expect(toy.texts.get("s-1")).toBe(ahead);
    expect(await notesOf(toy, ID)).toContainEqual(expect.stringContaining("from message s-1-one of session s-1"));
  });

  test("killed after the rewind, it continues the new session and does not rewind again", async () => {
    const toy = await rewound({ forkAtMessage: true });
    await toy.handle.restore({ sequence: toy.sequence });
    // The note, step.started, step.session, and what would be the answer.
    const commits = 4 + (await unparks(toy));
    expect(await toy.crash(toy.workflow, commits, "before")).toBe("died");
    await toy.go(toy.workflow);
    expect(toy.calls).toEqual([" - one", "s-1 - two", "s-1 s-1-one two", "s-2 - two"]);
  });

  test("restored, an agent that cannot rewind gets its record written back", async () => {
    const toy = await rewound({});
    await toy.handle.restore({ sequence: toy.sequence });
    await toy.go(toy.workflow);
    expect(toy.calls).toEqual([" - one", "s-1 - two", "s-1 - two"]);
    expect(toy.texts.get("s-1")).toBe('{"id":"s-1-one"}\n{"id":"s-1-two"}\n');
    expect(await notesOf(toy, ID)).toContainEqual(expect.stringContaining("its record is restored"));
  });

  test("a fork does not change the session of its parent: it forks the session too, or gets a hand-over", async () => {
    for (const forkAtMessage of [true, false]) {
      const toy = await rewound({ forkAtMessage });
      const ahead = toy.texts.get("s-1");
      const fork = await toy.handle.fork({ sequence: toy.sequence, id: "forked" });
      const outcome = await toy.go(toy.workflow, { run: fork.id });
      expect(outcome).toMatchObject({ kind: expect.stringMatching(/waiting|done/) });
      expect(toy.calls.at(-1)).toMatch(forkAtMessage ? /^s-1 s-1-one two$/ : /^ - (?:two|# Taking over)/);
      expect(toy.texts.get("s-1")).toBe(ahead);
      const note = forkAtMessage ? "from message s-1-one" : "belongs to the run that was forked";
      expect(await notesOf(toy, fork.id)).toContainEqual(expect.stringContaining(note));
    }
  });

  /** A waiting run first gets a run.continued entry, in its own commit. */
  async function unparks({ store }: TestWorktree): Promise<number> {
    return (await store.getRun(ID))?.state.kind === "waiting" ? 1 : 0;
  }
});

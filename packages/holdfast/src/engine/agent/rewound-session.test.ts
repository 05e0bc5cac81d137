import { expect, test } from "vitest";
import type { Agent, AgentTask } from "../../ports/agent.ts";
import { begin, define, ID } from "../../testing/toy-run.ts";
import { startInWorktree, type ToyWorktree } from "../../testing/toy-worktree.ts";
import { RunHandle } from "../run-handle.ts";

const CALL = { role: "impl", model: null, yolo: false } as const;

interface Rewound extends ToyWorktree {
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
  const toy = await startInWorktree(
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
    work: async ({ agent, park }) => {
      const { session } = await agent({ ...CALL, name: "one", prompt: "one" });
      if (parks++ === 0) await park({ on: "person", reason: "wait" });
      await agent({ ...CALL, name: "two", prompt: "two", session });
      if (parks++ === 2) await park({ on: "person", reason: "wait" });
      return { event: "worked", reason: "did it" };
    },
  });
  await begin(toy.parts, workflow, toy.workspace);
  await toy.go(workflow);
  const sequence = (await toy.store.latest(ID))?.sequence ?? 0;
  await toy.go(workflow);
  const { parts, store } = toy;
  const handle = new RunHandle(parts, await store.createRun({ id: ID, workflow: "toy", work: { kind: "none" } }));
  return { ...toy, calls, texts, workflow, handle, sequence };
}

const notesOf = async ({ store }: ToyWorktree, run: string): Promise<readonly unknown[]> =>
  (await Array.fromAsync(store.readJournal({ run })))
    .filter(({ kind }) => kind === "note")
    .map(({ body }) => body["text"]);

test("restored, an agent that can goes on from the last message of then, in a new session; the old one stays", async () => {
  const toy = await rewound({ forkAtMessage: true });
  await toy.handle.restore({ sequence: toy.sequence });
  const ahead = toy.texts.get("s-1");
  await toy.go(toy.workflow);
  expect(toy.calls).toEqual([" - one", "s-1 - two", "s-1 s-1-one two"]);
  expect(toy.texts.get("s-1")).toBe(ahead);
  expect(await notesOf(toy, ID)).toContainEqual(expect.stringContaining("from message s-1-one of session s-1"));
});

test("killed after it went back, it goes on with the new session and does not go back again", async () => {
  const toy = await rewound({ forkAtMessage: true });
  await toy.handle.restore({ sequence: toy.sequence });
  // The note, step.started, step.session, and what would be the answer.
  const commits = 4 + (await unparks(toy));
  expect(await toy.crash(toy.workflow, commits, "before")).toBe("died");
  await toy.go(toy.workflow);
  expect(toy.calls).toEqual([" - one", "s-1 - two", "s-1 s-1-one two", "s-2 - two"]);
});

test("restored, one that cannot has its record put back", async () => {
  const toy = await rewound({});
  await toy.handle.restore({ sequence: toy.sequence });
  await toy.go(toy.workflow);
  expect(toy.calls).toEqual([" - one", "s-1 - two", "s-1 - two"]);
  expect(toy.texts.get("s-1")).toBe('{"id":"s-1-one"}\n{"id":"s-1-two"}\n');
  expect(await notesOf(toy, ID)).toContainEqual(expect.stringContaining("its record is put back"));
});

test("a fork leaves the session of its parent alone: it forks it too, or is handed over", async () => {
  for (const forkAtMessage of [true, false]) {
    const toy = await rewound({ forkAtMessage });
    const ahead = toy.texts.get("s-1");
    const fork = await toy.handle.fork({ sequence: toy.sequence, id: "forked" });
    const outcome = await toy.go(toy.workflow, { run: fork.id });
    expect(outcome).toMatchObject({ kind: expect.stringMatching(/parked|done/) });
    expect(toy.calls.at(-1)).toMatch(forkAtMessage ? /^s-1 s-1-one two$/ : /^ - (?:two|# Taking over)/);
    expect(toy.texts.get("s-1")).toBe(ahead);
    const note = forkAtMessage ? "from message s-1-one" : "belongs to the run that was forked";
    expect(await notesOf(toy, fork.id)).toContainEqual(expect.stringContaining(note));
  }
});

/** A parked run is unparked first, in a commit of its own. */
async function unparks({ store }: ToyWorktree): Promise<number> {
  return (await store.getRun(ID))?.state.kind === "parked" ? 1 : 0;
}

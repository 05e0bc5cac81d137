import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type TestWorktree, startTestRunInWorktree } from "@holdfast/test-support/core/toy-worktree";
import { type BenchOutcome, ID, type State, begin, define } from "@holdfast/test-support/core/work-bench";
import type { AgentTask } from "./agent.ts";
import type { ProgressEvent } from "./progress.ts";
import type { StageFunction } from "./workflow.ts";

const LOST = { kind: "failed", cause: "session_lost", message: "no transcript", instant: true } as const;
const work: StageFunction<State> = async ({ agent }) => {
  await agent({ name: "edit", role: "impl", prompt: "do it", model: null, yolo: false });
  return { event: "worked", reason: "did it" };
};
const workflow = define({ work });
const said = (text: string) =>
  `${JSON.stringify({ type: "assistant", message: { role: "assistant", content: text } })}\n`;

type Seen = Pick<AgentTask, "session" | "prompt" | "continuation">;

/** An agent whose session record may be lost, and which dies in the middle of its first call. */
async function dying(params: {
  readonly second: (task: AgentTask) => BenchOutcome;
  readonly first?: (task: AgentTask, root: string) => void;
  readonly records?: Map<string, string>;
  /** Its sessions replay their messages instead of having a record. */
  readonly replays?: true;
}): Promise<TestWorktree & { readonly seen: Seen[] }> {
  const records = params.records ?? new Map<string, string>();
  const seen: Seen[] = [];
  const toy = await startTestRunInWorktree(
    (task, root) => {
      const { session, prompt, continuation } = task;
      seen.push({ session, prompt, ...(continuation === undefined ? {} : { continuation }) });
      if (seen.length > 1) return params.second(task);
      task.onEvent({ kind: "session", id: "s-1" });
      params.first?.(task, root);
      return { text: "done", session: "s-1" };
    },
    { resume: true },
    {
      read: ({ session }) => {
        const text = records.get(session);
        return Promise.resolve(text === undefined ? null : { text, lastMessage: null });
      },
      write: () => Promise.reject(new Error("the disk is read-only")),
      tokensIn: (text) => ({ input: text.length, output: 0 }),
      answerIn: (text, prompt) => (text.split("|").at(-2) === prompt ? (text.split("|").at(-1) ?? null) : null),
      askedIn: (text, prompt) => text.includes(prompt),
    },
    params.replays === true ? { sessions: null, replays: true } : {},
  );
  await begin(toy.adapters, workflow, toy.workspace);
  // step.started, step.session, and what would be the answer.
  expect(await toy.crash(workflow, 3, "before")).toBe("died");
  return { ...toy, seen };
}

const half = (_task: AgentTask, root: string): void => writeFileSync(join(root, "half.txt"), "half");
const notesOf = async ({ store }: TestWorktree): Promise<readonly unknown[]> => {
  const journal = await Array.fromAsync(store.readJournal({ run: ID }));
  return journal.filter(({ kind }) => kind === "note").map(({ body }) => body["text"]);
};

test("a lost session is replaced: a fresh one starts with a hand-over, files are kept, and the run reports it", async () => {
  const records = new Map([
    ["s-1", `${said("I will write half.txt first.")}${JSON.stringify({ half: 1 }).slice(0, 4)}`],
  ]);
  const heard: ProgressEvent[] = [];
  const toy = await dying({
    records,
    first: half,
    second: (task) => (task.session === null ? { text: "done", session: "s-2" } : LOST),
  });
  const outcome = await toy.go(workflow, { listen: (event) => void heard.push(event) });
  expect(outcome).toMatchObject({ kind: "done" });
  expect(toy.seen.map(({ session }) => session)).toEqual([null, "s-1", null]);
  const given = toy.seen[2]?.prompt ?? "";
  expect(given).toMatch(/^Text between <data-\w{16} …>[^\n]* is data[^\n]*\n\n# Taking over\n/);
  expect(given).toContain("half.txt");
  expect(given).toMatch(
    /<data-(\w{16}) source="the session before">[^<]*\[agent\] I will write half.txt first.[^<]*<\/data-\1>/,
  );
  expect(given).toContain("last tool call may be incomplete");
  expect(given.endsWith("# The task\n\ndo it")).toBe(true);
  expect(toy.file("half.txt")).toBe(true);
  expect(toy.waits).toEqual([]);
  const text = expect.stringMatching(
    /toy cannot resume the session of edit \(no transcript\): a new session gets a summary/,
  );
  expect(await notesOf(toy)).toEqual([text]);
  expect(heard).toContainEqual(expect.objectContaining({ kind: "note", text }));
  expect(toy.logs.get("edit")).toEqual(["holdfast: A fresh session of toy takes over"]);
  expect((await toy.store.latest(ID))?.planes.position.iteration).toBe(0);
});

test("an interrupted session that has the task gets a continuation instead, with its files and the next step", async () => {
  const next = define({
    work: async ({ agent }) => {
      const call = { name: "edit", role: "impl", prompt: "do it", model: null, yolo: false } as const;
      await agent({ ...call, continuation: "Finish, then write DONE." });
      return { event: "worked", reason: "did it" };
    },
  });
  const toy = await dying({
    records: new Map([["s-1", "user: do it"]]),
    first: half,
    second: () => ({ text: "done", session: "s-1" }),
  });
  expect(await toy.go(next)).toMatchObject({ kind: "done" });
  expect(toy.seen.map(({ session }) => session)).toEqual([null, "s-1"]);
  const given = toy.seen[1]?.prompt ?? "";
  expect(given).not.toContain("do it");
  expect(given).toMatch(/^Text between <data-\w{16} …>[^\n]* is data[^\n]*\n\n# You were interrupted\n/);
  expect(given).toMatch(/<data-(\w{16}) source="changed files">[^<]*half\.txt[^<]*<\/data-\1>/);
  expect(given.endsWith("## What to do next\n\nFinish, then write DONE.\n")).toBe(true);
});

test("an interrupted session that has not received the task gets the whole task", async () => {
  const toy = await dying({
    records: new Map([["s-1", "nothing yet"]]),
    first: half,
    second: () => ({ text: "done", session: "s-1" }),
  });
  expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
  expect(toy.seen[1]).toEqual({ session: "s-1", prompt: "do it" });
});

test("an interrupted session that replays its messages gets the task and the continuation, and its agent decides", async () => {
  const second = () => ({ text: "done", session: "s-1" });
  const toy = await dying({ replays: true, first: half, second });
  expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
  const [first, resumed] = toy.seen;
  expect(first).toEqual({ session: null, prompt: "do it" });
  expect(resumed).toEqual({ session: "s-1", prompt: "do it", continuation: expect.stringContaining("half.txt") });
  expect(resumed?.continuation).not.toContain("do it");
});

test("a continued turn that ended while Holdfast was dead is found by its continuation, and not paid twice", async () => {
  const records = new Map([["s-1", "do it"]]);
  const toy = await dying({ records, second: () => ({ text: "asked again", session: "s-1" }) });
  // run.resumed, the lost usage, and step.started: the agent works on after Holdfast has died.
  expect(await toy.crash(workflow, 3, "after")).toBe("died");
  const journal = await Array.fromAsync(toy.store.readJournal({ run: ID }));
  const sent = String(journal.findLast(({ kind }) => kind === "step.started")?.body["sent"]);
  expect(sent).toMatch(/^# You were interrupted\n/);
  records.set("s-1", `do it|${sent}|finished`);
  expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
  expect(toy.seen.map(({ prompt }) => prompt)).toEqual(["do it"]);
  expect(await notesOf(toy)).toContainEqual(expect.stringMatching(/had finished edit .* its result is adopted/));
});

test("killed at any commit between the loss and the answer, the fresh session still gets the hand-over, once", async () => {
  for (const moment of ["before", "after"] as const) {
    for (let at = 1; ; at += 1) {
      const records = new Map([["s-1", said("I thought of half.txt.")]]);
      const toy = await dying({
        records,
        first: half,
        second: (task) => (task.session === null ? { text: "done", session: null } : LOST),
      });
      const died = await toy.crash(workflow, at, moment);
      // What the agent had is gone too by then.
      if (toy.seen.length > 2) records.clear();
      if (died === "ended") break;
      expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
      const fresh = toy.seen.slice(1).filter(({ session }) => session === null);
      expect(fresh.length).toBeLessThanOrEqual(2);
      for (const { prompt } of fresh) expect(prompt).toContain("[agent] I thought of half.txt.");
      expect(toy.file("half.txt")).toBe(true);
      expect((await notesOf(toy)).length).toBeLessThanOrEqual(1 + (died === "died" ? 1 : 0));
    }
  }
});

test("killed in its first second it left nothing to hand over: the task is sent unchanged", async () => {
  const toy = await dying({ second: (task) => (task.session === null ? { text: "done" } : LOST) });
  expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
  expect(toy.seen.map(({ prompt }) => prompt)).toEqual(["do it", "do it", "do it"]);
  expect(toy.logs.get("edit")).toEqual([expect.stringContaining("the one before it had done nothing")]);
});

test("a fresh session that dies without a record hands over the output of the first one", async () => {
  const records = new Map([["s-1", said("The first one's words.")]]);
  const toy = await dying({
    records,
    second: (task) => {
      if (task.session !== null) return LOST;
      task.onEvent({ kind: "session", id: "s-2" });
      return { text: "done", session: "s-2" };
    },
  });
  // run.resumed, what died is unknown, step.started, the loss, step.started, step.session, and what would be the answer.
  expect(await toy.crash(workflow, 7, "before")).toBe("died");
  records.clear();
  expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
  expect(toy.seen.map(({ session }) => session)).toEqual([null, "s-1", null, "s-2", null]);
  expect(toy.seen.at(-1)?.prompt).toContain("[agent] The first one's words.");
});

test("an agent that loses every session is not called forever", async () => {
  let fresh = 0;
  const toy = await dying({
    second: (task) => {
      if (task.session !== null) return LOST;
      fresh += 1;
      task.onEvent({ kind: "session", id: `s-${fresh + 1}` });
      return { kind: "failed", cause: "overload" };
    },
  });
  expect(await toy.go(workflow)).toMatchObject({ kind: "waiting", for: "you" });
  expect(toy.seen.length).toBeLessThan(20);
});

import { existsSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { sessionsIn, startTestRunInWorktree } from "@holdfast/test-support/core/toy-worktree";
import {
  ID,
  type State,
  TOY_CONFIG,
  TOY_INPUTS,
  begin,
  define,
  memoryAnswers,
} from "@holdfast/test-support/core/work-bench";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import type { Agent } from "./agent.ts";
import { beginRun, raiseLimits } from "./control-run.ts";
import { sha256 } from "./json.ts";
import type { ProgressEvent } from "./progress.ts";
import { RunHandle } from "./run-handle.ts";
import type { AgentCall, AgentReport, StageFunction } from "./workflow.ts";

const usage = (inputTokens: number) => ({ inputTokens, outputTokens: 0, microUsd: null });
const MINUTES = 60_000;

const CALL: AgentCall = { name: "edit", role: "impl", prompt: "do it", model: null, yolo: false };
const calling =
  (reports: AgentReport[], call: Partial<AgentCall> = {}): StageFunction<State> =>
  async ({ agent }) => {
    reports.push(await agent({ ...CALL, ...call }));
    return { event: "worked", reason: "did it" };
  };

test("a call commits answer, files and conversation as one checkpoint; files to collect are kept, stale files are not", async () => {
  const marks: string[] = [];
  const { adapters, store, go, workspace, file, logs } = await startTestRunInWorktree((task, root) => {
    marks.push(task.mark);
    expect(existsSync(join(root, ".tmp"))).toBe(false);
    writeFileSync(join(root, "new.txt"), "made\n");
    writeFileSync(join(root, "final.txt"), "all of it");
    task.onEvent({ kind: "raw", line: "raw line" });
    for (const name of ["Read", "Edit", "Read"]) task.onEvent({ kind: "tool", name, detail: "final.txt" });
    task.onEvent({ kind: "message", id: "m-7" });
    return { text: "I made it", session: "s-1", usage: usage(12) };
  });
  const reports: AgentReport[] = [];
  const workflow = define({ work: calling(reports, { collect: ["final.txt", ".tmp/none.txt"] }) });
  file("final.txt", "stale");
  await begin(adapters, workflow, workspace);
  await go(workflow);
  expect(reports).toEqual([
    {
      outcome: "completed",
      cause: null,
      message: null,
      text: "I made it",
      session: "s-1",
      usage: usage(12),
      changed: true,
      milliseconds: 0,
      collected: { "final.txt": "all of it", ".tmp/none.txt": null },
      uncollected: {},
      commit: null,
      sideWorktree: null,
      agent: "toy",
      tools: ["Read", "Edit"],
    },
  ]);
  expect(marks).toEqual([`${store.id}/${ID}/1/edit`]);
  expect(logs.get("edit")).toEqual(["raw line"]);
  const [saved] = await store.listCheckpoints({ run: ID, trigger: "agent_complete" });
  const { planes } = await store.getCheckpoint({ run: ID, sequence: saved?.sequence ?? 0 });
  const text = "raw line\n";
  expect(planes.conversation).toEqual({
    agent: "toy",
    session: "s-1",
    transcript: { digest: sha256(text), bytes: 9, text },
    lastMessage: "m-7",
  });
  expect(planes.position.stageAttempt.steps["edit"]).toEqual(reports[0]);
  expect(planes.position.budget.spent.tokens).toBe(12);
  expect(planes.files?.artifacts.map(({ path }) => path)).toContain("new.txt");
  const journal = await Array.fromAsync(store.readJournal({ run: ID }));
  const finished = journal.find(({ kind }) => kind === "step.finished");
  expect(saved?.entry).toBe((finished?.entry ?? 0) + 1);
});

test("killed in the middle: half-done files are saved and put back, and the call runs again from its beginning", async () => {
  let calls = 0;
  const { adapters, store, go, crash, workspace, file, ended } = await startTestRunInWorktree((_task, root) => {
    calls += 1;
    expect(existsSync(join(root, "half.txt"))).toBe(false);
    writeFileSync(join(root, "half.txt"), `try ${calls}`);
    return { text: "done" };
  });
  const workflow = define({ work: calling([]) });
  await begin(adapters, workflow, workspace);
  // The first commit is step.started, the second would be the answer.
  expect(await crash(workflow, 2, "before")).toBe("died");
  expect(file("half.txt")).toBe(true);
  expect(await go(workflow)).toMatchObject({ kind: "done" });
  expect(calls).toBe(2);
  expect(ended).toContain(`${store.id}/${ID}`);
  const [saved] = await store.listCheckpoints({ run: ID, trigger: "error_recovery" });
  const { planes } = await store.getCheckpoint({ run: ID, sequence: saved?.sequence ?? 0 });
  expect(planes.files?.artifacts.map(({ path }) => path)).toEqual(["half.txt"]);
});

test("killed in the middle of a resumable session: the files are kept and the session continues", async () => {
  const sessions: (string | null)[] = [];
  const { adapters, go, crash, workspace, store } = await startTestRunInWorktree(
    async (task, root) => {
      sessions.push(task.session);
      task.onEvent({ kind: "session", id: "s-1" });
      if (task.session !== null) expect(existsSync(join(root, "half.txt"))).toBe(true);
      writeFileSync(join(root, "half.txt"), "half");
      return { text: "done", session: "s-1" };
    },
    { resume: true },
  );
  const workflow = define({ work: calling([]) });
  await begin(adapters, workflow, workspace);
  expect(await crash(workflow, 3, "before")).toBe("died");
  expect(await go(workflow)).toMatchObject({ kind: "done" });
  expect(sessions).toEqual([null, "s-1"]);
  expect(await store.listCheckpoints({ run: ID, trigger: "error_recovery" })).toEqual([]);
});

/** An agent's own record of a session, as a file would be. */
function recordOf(texts: Map<string, string>): NonNullable<Agent["sessions"]> {
  return {
    read: ({ session }) => {
      const text = texts.get(session);
      return Promise.resolve(text === undefined ? null : { text, lastMessage: `m-${text.length}` });
    },
    write: ({ session, text }) => {
      texts.set(session, text);
      return Promise.resolve();
    },
  };
}

test("the agent's own session record is in the checkpoint, and restored when it is missing or the run was restored", async () => {
  const texts = new Map<string, string>();
  const found: (string | undefined)[] = [];
  const toy = await startTestRunInWorktree(
    (task) => {
      found.push(texts.get("s-1"));
      texts.set("s-1", `${texts.get("s-1") ?? ""}${task.prompt}.`);
      return { text: "done", session: "s-1" };
    },
    { resume: true },
    recordOf(texts),
  );
  const parks = ["after one", "after two"];
  const workflow = define({
    work: async ({ agent, wait }) => {
      const parkOnce = async (reason: string) => {
        if (parks[0] === reason) await wait({ for: "you", reason: parks.shift() ?? "" });
      };
      await agent({ ...CALL, name: "one", prompt: "one" });
      await parkOnce("after one");
      await agent({ ...CALL, name: "two", prompt: "two", session: "s-1" });
      await parkOnce("after two");
      return { event: "worked", reason: "did it" };
    },
  });
  await begin(toy.adapters, workflow, toy.workspace);
  await toy.go(workflow);
  const saved = await toy.store.latest(ID);
  expect(saved?.planes.conversation).toMatchObject({
    session: "s-1",
    transcript: { text: "one." },
    lastMessage: "m-4",
  });
  texts.clear();
  await toy.go(workflow);
  expect(found).toEqual([undefined, "one."]);
  expect(texts.get("s-1")).toBe("one.two.");
  const handle = new RunHandle(
    toy.adapters,
    await toy.store.createRun({ id: ID, workflow: "toy", work: { kind: "none" } }),
  );
  await handle.restore({ sequence: saved?.sequence ?? 0 });
  await toy.go(workflow);
  expect(found).toEqual([undefined, "one.", "one."]);
});

test("the output of an interrupted call is in the checkpoint of the interrupt", async () => {
  const controller = new AbortController();
  const { adapters, store, go, workspace } = await startTestRunInWorktree((task) => {
    task.onEvent({ kind: "raw", line: "half a thought" });
    controller.abort();
    return { kind: "failed", cause: "interrupted", session: null };
  });
  const workflow = define({ work: calling([]) });
  await begin(adapters, workflow, workspace);
  expect(await go(workflow, { signal: controller.signal })).toEqual({ kind: "interrupted" });
  expect((await store.latest(ID))?.planes.conversation?.transcript?.text).toBe("half a thought\n");
});

test("a timer's checkpoint in the middle does not become the checkpoint to go back to", async () => {
  let calls = 0;
  const { adapters, store, go, workspace, file } = await startTestRunInWorktree(async (task, root) => {
    calls += 1;
    if (calls === 2) expect(existsSync(join(root, "half.txt"))).toBe(false);
    writeFileSync(join(root, "half.txt"), "half");
    if (calls === 2) return { text: "done" };
    for (let saved = 0; saved < 1;) {
      await new Promise((resolve) => setTimeout(resolve, 10));
      saved = (await store.listCheckpoints({ run: ID, trigger: "timer" })).length;
    }
    controller.abort();
    await new Promise((resolve) => setImmediate(resolve));
    return { kind: "failed", cause: task.signal.aborted ? "interrupted" : "crash", usage: usage(7) };
  });
  const controller = new AbortController();
  const workflow = define({ work: calling([]) });
  await begin(adapters, workflow, workspace);
  expect(await go(workflow, { signal: controller.signal, adapters: { ...adapters, checkpointEveryMs: 20 } })).toEqual({
    kind: "interrupted",
  });
  expect(file("half.txt")).toBe(true);
  expect((await store.latest(ID))?.planes.position).toMatchObject({
    budget: { spent: { tokens: 7 }, reserved: { tokens: 0 } },
    stageAttempt: { running: { edit: { base: 1 } }, failures: {} },
  });
  expect(await go(workflow)).toMatchObject({ kind: "done" });
  expect(calls).toBe(2);
});

test("files that a user changed while no process worked are kept, saved and reported", async () => {
  const { adapters, store, go, workspace, file } = await startTestRunInWorktree(() => ({ text: "done" }));
  let parks = 0;
  const workflow = define({
    work: async ({ wait }) => {
      if (parks++ === 0) await wait({ for: "you", reason: "wait" });
      return { event: "worked", reason: "did it" };
    },
  });
  await begin(adapters, workflow, workspace);
  await go(workflow);
  file("mine.txt", "by hand");
  const notes: string[] = [];
  await go(workflow, { listen: (event) => void (event.kind === "note" && notes.push(event.text)) });
  expect(file("mine.txt")).toBe(true);
  expect(notes).toEqual([expect.stringContaining("they are kept")]);
  expect((await store.listCheckpoints({ run: ID, trigger: "automatic" }))[0]?.name).toBe("changed from outside");
});

test("an overloaded provider costs no iteration: it is tried again from the same files, and the count survives", async () => {
  const attempts: number[] = [];
  const { adapters, go, workspace, waits } = await startTestRunInWorktree((task, root) => {
    attempts.push(task.attempt);
    expect(existsSync(join(root, "half.txt"))).toBe(false);
    writeFileSync(join(root, "half.txt"), "half");
    return task.attempt < 9 ? { kind: "failed", cause: "overload", usage: usage(1) } : { text: "done" };
  });
  const workflow = define({ work: calling([]) });
  await begin(adapters, workflow, workspace);
  expect(await go(workflow)).toMatchObject({ kind: "waiting", for: "provider", until: expect.any(String) });
  expect(attempts).toEqual([1, 2, 3, 4, 5, 6]);
  expect(waits).toHaveLength(5);
  expect(await go(workflow)).toMatchObject({ kind: "done" });
  expect(attempts.slice(6)).toEqual([7, 8, 9]);
});

test("waiting until the provider answers again: resumed once, however the clock is set meanwhile", async () => {
  let calls = 0;
  const toy = await startTestRunInWorktree(() => {
    calls += 1;
    if (calls > 1) return { text: "done" };
    const until = new Date(toy.adapters.clock.now() + 60 * MINUTES).toISOString();
    return { kind: "failed", cause: "rate_limit", until };
  });
  const workflow = define({ work: calling([]) });
  await begin(toy.adapters, workflow, toy.workspace);
  const waiting = { kind: "waiting", for: "quota", until: expect.any(String) };
  expect(await toy.go(workflow)).toMatchObject(waiting);
  toy.pass(-600 * MINUTES);
  expect(await toy.go(workflow)).toMatchObject(waiting);
  toy.pass(659 * MINUTES);
  expect(await toy.go(workflow)).toMatchObject(waiting);
  expect(calls).toBe(1);
  toy.pass(1 * MINUTES);
  expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
  expect(calls).toBe(2);
  expect((await toy.kinds()).filter((kind) => kind === "run.continued")).toHaveLength(1);
});

test("git locks that a killed agent left in the worktree are removed before the next attempt", async () => {
  const found: boolean[] = [];
  const notes: string[] = [];
  const toy = await startTestRunInWorktree((task, root) => {
    const lock = resolve(root, toy.tree.git("rev-parse", "--git-path", "index.lock").trim());
    found.push(existsSync(lock));
    if (task.attempt === 2) return { text: "done" };
    writeFileSync(join(root, "half.txt"), "half");
    writeFileSync(lock, "");
    return { kind: "failed", cause: "killed", message: "killed by SIGKILL" };
  });
  const workflow = define({ work: calling([]) });
  await begin(toy.adapters, workflow, toy.workspace);
  const listen = (event: ProgressEvent): void => void (event.kind === "note" && notes.push(event.text));
  expect(await toy.go(workflow, { listen })).toMatchObject({ kind: "done" });
  expect(found).toEqual([false, false]);
  expect(notes).toContainEqual(
    expect.stringMatching(/^Removed a stale git lock of a process that was killed: .*index\.lock$/),
  );
});

test("a failure of the agent itself is a report, with its files in a checkpoint", async () => {
  const { adapters, go, workspace } = await startTestRunInWorktree((_task, root) => {
    writeFileSync(join(root, "half.txt"), "half");
    return { kind: "failed", cause: "timeout", message: "too long" };
  });
  const reports: AgentReport[] = [];
  const workflow = define({ work: calling(reports) });
  await begin(adapters, workflow, workspace);
  await go(workflow);
  expect(reports).toMatchObject([{ outcome: "failed", cause: "timeout", message: "too long", changed: true }]);
});

test("budget: a notice once at 80 %, waiting at 100 %, continued when raised; a call that died counts as reserved", async () => {
  let calls = 0;
  const { adapters, go, store, crash, workspace } = await startTestRunInWorktree(() => {
    calls += 1;
    return { usage: usage(30) };
  });
  const estimate = { tokens: 20, microUsd: 0, milliseconds: 0 };
  const work: StageFunction<State> = async ({ agent }) => {
    for (let i = 1; i <= 4; i += 1) await agent({ ...CALL, name: `edit-${i}`, estimate });
    return { event: "worked", reason: "did it" };
  };
  const workflow = define({ work });
  const limit = { tokens: 100, milliseconds: 60 * MINUTES };
  const given = { id: ID, work: { kind: "none" }, inputs: TOY_INPUTS, config: TOY_CONFIG } as const;
  await beginRun({ adapters, workflow, ...given, workspace, limit });
  // Dies after step.started of the second call: 30 spent, 20 lost.
  expect(await crash(workflow, 3, "after")).toBe("died");
  const heard: ProgressEvent[] = [];
  const outcome = await go(workflow, { listen: (event) => void heard.push(event) });
  expect(outcome).toMatchObject({ kind: "waiting", for: "budget", reason: "The budget is used up: 110 of 100 tokens" });
  expect(heard.filter(({ kind }) => kind === "budget")).toHaveLength(1);
  expect(calls).toBe(3);
  expect(await go(workflow)).toMatchObject({ kind: "waiting", for: "budget" });
  expect(await raiseLimits({ adapters, run: ID, limit: { tokens: 105 } })).toMatchObject({ spent: { tokens: 110 } });
  expect(await go(workflow)).toMatchObject({ kind: "waiting", for: "budget" });
  await raiseLimits({ adapters, run: ID, limit: { tokens: 200 } });
  expect(await go(workflow)).toMatchObject({ kind: "done" });
  expect((await store.latest(ID))?.planes.position.budget.spent.tokens).toBe(140);
});

test("time counts for the run: time outside of agents counts, a kill loses none, waiting time does not count", async () => {
  const toy = await startTestRunInWorktree(() => {
    toy.pass(5 * MINUTES);
    return {};
  });
  const work: StageFunction<State> = async ({ step, agent, wait, sleep }) => {
    await step("slow", () => (toy.pass(10 * MINUTES), 1));
    await agent(CALL);
    if (parks++ === 0) await wait({ for: "you", reason: "wait" });
    await sleep("pause", 5 * MINUTES);
    await sleep("one more", 5 * MINUTES);
    return { event: "worked", reason: "did it" };
  };
  let parks = 0;
  const workflow = define({ work });
  const given = { id: ID, work: { kind: "none" }, inputs: TOY_INPUTS, config: TOY_CONFIG } as const;
  await beginRun({
    adapters: toy.adapters,
    workflow,
    ...given,
    workspace: toy.workspace,
    limit: { milliseconds: 20 * MINUTES },
  });
  const spent = async () => (await toy.store.latest(ID))?.planes.position.budget.spent.milliseconds;
  // Dies after the slow step, before any checkpoint holds its ten minutes.
  expect(await toy.crash(workflow, 1, "after")).toBe("died");
  expect(await spent()).toBe(0);
  expect(await toy.go(workflow)).toMatchObject({ kind: "waiting", for: "you" });
  expect(await spent()).toBe(15 * MINUTES);
  toy.pass(600 * MINUTES);
  expect(await toy.go(workflow)).toMatchObject({
    kind: "waiting",
    for: "budget",
    reason: "The budget is used up: 20 of 20 minutes",
  });
});

/** Moments of a kill at a commit, for a call that changes files and for one that does not. */
const KILLS = [true, false].flatMap((changesFiles) =>
  (["before", "after"] as const).map((moment) => ({ name: `${moment}, ${changesFiles}`, changesFiles, moment })),
);

test.each([
  { name: "without sessions", capabilities: {}, session: null },
  { name: "with a session", capabilities: { resume: true }, session: "s-1" },
])(
  "a finished call is adopted wherever the process dies after it: called once, paid once ($name)",
  async ({ capabilities, session }) => {
    let adopted = 0;
    for (const { changesFiles, moment } of sampleBySeed(KILLS, 1, `${session}`)) {
      for (let at = 1, how = "died"; how === "died"; at += 1) {
        let calls = 0;
        const toy = await startTestRunInWorktree((task, root) => {
          calls += 1;
          if (session !== null) task.onEvent({ kind: "session", id: session });
          task.onEvent({ kind: "tool", name: "Edit", detail: "made.txt" });
          if (changesFiles) writeFileSync(join(root, "made.txt"), `${calls}`);
          return { text: `call ${calls}`, session, usage: usage(7) };
        }, capabilities);
        Object.assign(toy.adapters, { logs: { ...toy.adapters.logs, result: memoryAnswers() } });
        const reports: AgentReport[] = [];
        const estimate = { tokens: 3, microUsd: 0, milliseconds: 0 };
        const workflow = define({ work: calling(reports, { changesFiles, estimate }) });
        await begin(toy.adapters, workflow, toy.workspace);
        how = await toy.crash(workflow, at, moment);
        const where = `commit ${at}, ${moment}`;
        const isKept = toy.adapters.logs.result({ run: ID, stageAttempt: 1, step: "edit" }).read() !== null;
        if (isKept) adopted += 1;
        // The commit that names the session comes while the agent works: dead there, nothing has finished.
        const isCutOff = calls === 1 && !isKept && reports.length === 0;
        await toy.go(workflow);
        expect(calls, where).toBe(isCutOff ? 2 : 1);
        expect(reports.at(-1), where).toMatchObject({ text: `call ${calls}`, usage: usage(7), tools: ["Edit"] });
        const { planes } = (await toy.store.latest(ID)) ?? {};
        // A process that died before or in the call had reserved its estimate, and that counts.
        expect(planes?.position.budget.spent.tokens, where).toBeOneOf(isKept ? [7] : [7, 10]);
        expect(toy.file("made.txt"), where).toBe(changesFiles);
        expect(toy.adapters.logs.result({ run: ID, stageAttempt: 1, step: "edit" }).read(), where).toBeNull();
      }
    }
    expect(adopted).toBeGreaterThan(0);
  },
);

test("a finished call is adopted once although the resume that adopts it is killed too", async () => {
  let adopted = 0;
  for (let at = 1, first = "died"; first === "died"; at += 1) {
    for (let again = 1, second = "died"; second === "died"; again += 1) {
      let calls = 0;
      const toy = await startTestRunInWorktree((_task, root) => {
        calls += 1;
        writeFileSync(join(root, "made.txt"), `${calls}`);
        return { text: `call ${calls}`, session: null, usage: usage(7) };
      });
      Object.assign(toy.adapters, { logs: { ...toy.adapters.logs, result: memoryAnswers() } });
      const reports: AgentReport[] = [];
      const workflow = define({ work: calling(reports, { changesFiles: true }) });
      await begin(toy.adapters, workflow, toy.workspace);
      first = await toy.crash(workflow, at, "after");
      if (toy.adapters.logs.result({ run: ID, stageAttempt: 1, step: "edit" }).read() === null) break;
      adopted += 1;
      second = await toy.crash(workflow, again, "after");
      if (second === "died") await toy.go(workflow);
      const where = `killed at commit ${at}, and at commit ${again} of the resume`;
      expect(calls, where).toBe(1);
      expect(toy.file("made.txt"), where).toBe(true);
      expect((await toy.store.latest(ID))?.planes.position.budget.spent.tokens, where).toBe(7);
    }
  }
  expect(adopted).toBeGreaterThan(1);
});

test("a stored result of another agent or another attempt is not adopted, and the files are put back", async () => {
  let calls = 0;
  const toy = await startTestRunInWorktree((_, root) => {
    calls += 1;
    writeFileSync(join(root, `made-${calls}.txt`), "");
    return { text: `call ${calls}` };
  });
  const reports: AgentReport[] = [];
  const workflow = define({ work: calling(reports) });
  const result = memoryAnswers();
  Object.assign(toy.adapters, { logs: { ...toy.adapters.logs, result } });
  await begin(toy.adapters, workflow, toy.workspace);
  const altered: typeof result = (key) => ({
    ...result(key),
    read: () => result(key).read()?.replace('"agent":"toy"', '"agent":"other"') ?? null,
  });
  // The first commit is step.started, the second would be the answer.
  expect(await toy.crash(workflow, 2, "before")).toBe("died");
  expect(calls).toBe(1);
  expect(
    await toy.go(workflow, { adapters: { ...toy.adapters, logs: { ...toy.adapters.logs, result: altered } } }),
  ).toMatchObject({
    kind: "done",
  });
  expect(reports.at(-1)).toMatchObject({ text: "call 2" });
  expect([toy.file("made-1.txt"), toy.file("made-2.txt")]).toEqual([false, true]);
});

test.each([
  { name: "its reported usage", reported: [400, 30], spent: { tokens: 430 + 7 } },
  { name: "unknown without reported usage", reported: [], spent: { tokens: 7, uncounted: 1 } },
])("a call that died with its process, of an agent without its own record, is counted: $name", async (row) => {
  let calls = 0;
  const toy = await startTestRunInWorktree(
    (task) => {
      calls += 1;
      task.onEvent({ kind: "session", id: "s-1" });
      if (calls === 2) return { session: "s-1", usage: usage(7) };
      for (const tokens of row.reported) task.onEvent({ kind: "usage", tokens });
      throw new Error("the process dies here");
    },
    { resume: true },
  );
  const result = memoryAnswers();
  Object.assign(toy.adapters, { logs: { ...toy.adapters.logs, result } });
  const workflow = define({ work: calling([]) });
  await begin(toy.adapters, workflow, toy.workspace);
  // The third commit would record the failure. A dead process records nothing.
  expect(await toy.crash(workflow, 3, "before")).toBe("died");
  const notes: string[] = [];
  const listen = (event: ProgressEvent): void => void (event.kind === "note" && notes.push(event.text));
  expect(await toy.go(workflow, { listen })).toMatchObject({ kind: "done" });
  expect(calls).toBe(2);
  expect((await toy.store.latest(ID))?.planes.position.budget.spent).toMatchObject(row.spent);
  expect(notes.some((text) => /interrupted step/.test(text))).toBe(true);
});

test("a call that died before its agent's record grew is unknown, not zero", async () => {
  let calls = 0;
  const toy = await startTestRunInWorktree(
    (task) => {
      calls += 1;
      task.onEvent({ kind: "session", id: "s-1" });
      if (calls === 2) return { session: "s-1", usage: usage(7) };
      throw new Error("the process dies here");
    },
    { resume: true },
    { ...recordOf(new Map([["s-1", ""]])), tokensIn: () => ({ input: 0, output: 0 }) },
  );
  const workflow = define({ work: calling([]) });
  await begin(toy.adapters, workflow, toy.workspace);
  expect(await toy.crash(workflow, 3, "before")).toBe("died");
  expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
  const { spent } = (await toy.store.latest(ID))?.planes.position.budget ?? expect.fail();
  expect(spent).toMatchObject({ tokens: 7, uncounted: 1, unpriced: 2 });
});

test.each([
  { name: "as much as the largest call before it", earlier: 1, limit: { tokens: 60 }, held: { tokens: 30 } },
  {
    name: "a tenth of the limit before any call has finished",
    earlier: 0,
    limit: { tokens: 5000 },
    held: { tokens: 500 },
  },
  { name: "money too", earlier: 1, limit: { microUsd: 9 }, held: { tokens: 0, microUsd: 5 } },
  { name: "nothing without a limit", earlier: 1, limit: {}, held: undefined },
])("a lost call of unknown usage counts against the limits: $name", async ({ earlier, limit, held }) => {
  let calls = 0;
  const toy = await startTestRunInWorktree(() => {
    calls += 1;
    if (calls === earlier + 1) throw new Error("the process dies here");
    return { usage: { ...usage(30), microUsd: 5 } };
  });
  const work: StageFunction<State> = async ({ agent }) => {
    for (let i = 1; i <= 3; i += 1) await agent({ ...CALL, name: `edit-${i}` });
    return { event: "worked", reason: "did it" };
  };
  const workflow = define({ work });
  const given = { id: ID, work: { kind: "none" }, inputs: TOY_INPUTS, config: TOY_CONFIG } as const;
  await beginRun({ adapters: toy.adapters, workflow, ...given, workspace: toy.workspace, limit });
  // Each call commits its start and its answer: the commit after the start of the lost one fails.
  expect(await toy.crash(workflow, 2 * earlier + 2, "before")).toBe("died");
  // Killed again right after it was counted, nothing is held twice.
  expect(await toy.crash(workflow, 2, "before")).toBe("died");
  const outcome = await toy.go(workflow);
  const { budget } = (await toy.store.latest(ID))?.planes.position ?? expect.fail();
  if (held === undefined) expect(budget.held).toBeUndefined();
  else expect(budget.held).toMatchObject(held);
  expect(budget.spent.uncounted).toBeGreaterThan(0);
  // The second call of 30 tokens or 5 µ$ would pass the limit together with the lost one.
  expect(outcome).toMatchObject(
    earlier === 1 && held !== undefined ? { kind: "waiting", for: "budget" } : { kind: "done" },
  );
  if (outcome.kind === "waiting") expect(calls).toBe(2);
  expect(budget.spent.tokens).toBe(outcome.kind === "waiting" ? 30 : 90);
});

test("an interrupted call whose usage was settled is not counted again when the run resumes", async () => {
  let calls = 0;
  const controller = new AbortController();
  const toy = await startTestRunInWorktree(
    (task) => {
      calls += 1;
      task.onEvent({ kind: "session", id: "s-1" });
      if (calls === 2) return { session: "s-1", usage: { ...usage(7), microUsd: 1 } };
      task.onEvent({ kind: "usage", tokens: 40 });
      controller.abort();
      return { kind: "failed", cause: "interrupted", session: "s-1", usage: { ...usage(40), microUsd: 2 } };
    },
    { resume: true },
  );
  Object.assign(toy.adapters, { logs: { ...toy.adapters.logs, result: memoryAnswers() } });
  const workflow = define({ work: calling([]) });
  await begin(toy.adapters, workflow, toy.workspace);
  expect(await toy.go(workflow, { signal: controller.signal })).toEqual({ kind: "interrupted" });
  expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
  const { spent } = (await toy.store.latest(ID))?.planes.position.budget ?? expect.fail();
  expect(spent).toEqual({ tokens: 47, microUsd: 3, milliseconds: expect.any(Number) });
});

test("a call ends when the usage that it streams reaches a limit; with a higher one its session continues", async () => {
  let calls = 0;
  const sessions: (string | null)[] = [];
  const toy = await startTestRunInWorktree(
    (task, root) => {
      calls += 1;
      sessions.push(task.session);
      task.onEvent({ kind: "session", id: "s-1" });
      if (calls === 2) return { session: "s-1", usage: { ...usage(7), microUsd: 1 } };
      writeFileSync(join(root, "half.txt"), "half");
      task.onEvent({ kind: "usage", tokens: 60, total: { ...usage(60), microUsd: 2 } });
      expect(task.signal.aborted).toBe(false);
      task.onEvent({ kind: "usage", tokens: 60, total: { ...usage(120), microUsd: 4 } });
      expect(task.signal.aborted).toBe(true);
      return { kind: "failed", cause: "interrupted", session: "s-1", usage: { ...usage(120), microUsd: 4 } };
    },
    { resume: true },
  );
  Object.assign(toy.adapters, { logs: { ...toy.adapters.logs, result: memoryAnswers() } });
  const workflow = define({ work: calling([]) });
  const given = { id: ID, work: { kind: "none" }, inputs: TOY_INPUTS, config: TOY_CONFIG } as const;
  await beginRun({ adapters: toy.adapters, workflow, ...given, workspace: toy.workspace, limit: { tokens: 100 } });
  const waiting = { kind: "waiting", for: "budget", reason: expect.stringContaining("120 of 100 tokens") };
  // A kill right before the run is recorded as waiting: the usage is counted once.
  expect(await toy.crash(workflow, 4, "before")).toBe("died");
  expect(await toy.go(workflow)).toMatchObject(waiting);
  expect(calls).toBe(1);
  const { files } = (await toy.store.latest(ID))?.planes ?? expect.fail();
  expect(files?.artifacts.map(({ path }) => path)).toContain("half.txt");
  await raiseLimits({ adapters: toy.adapters, run: ID, limit: { tokens: 1000 } });
  expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
  expect(sessions).toEqual([null, "s-1"]);
  expect(toy.file("half.txt")).toBe(true);
  const { spent } = (await toy.store.latest(ID))?.planes.position.budget ?? expect.fail();
  expect(spent).toEqual({ tokens: 127, microUsd: 5, milliseconds: expect.any(Number) });
});

test("two calls at once end when their usage together reaches the limit on money", async () => {
  const stopped: string[] = [];
  const toy = await startTestRunInWorktree(
    async (task) => {
      const name = task.prompt;
      task.onEvent({ kind: "session", id: name });
      task.onEvent({ kind: "usage", tokens: 1, total: { ...usage(1), microUsd: 6 } });
      if (!task.signal.aborted)
        await new Promise((resolve) => task.signal.addEventListener("abort", resolve, { once: true }));
      stopped.push(name);
      return { kind: "failed", cause: "interrupted", session: name, usage: { ...usage(1), microUsd: 6 } };
    },
    { resume: true },
  );
  const work: StageFunction<State> = async ({ agent }) => {
    const call = (name: string) => agent({ ...CALL, name, prompt: name, changesFiles: false });
    await Promise.all([call("one"), call("two")]);
    return { event: "worked", reason: "did it" };
  };
  const workflow = define({ work });
  const given = { id: ID, work: { kind: "none" }, inputs: TOY_INPUTS, config: TOY_CONFIG } as const;
  await beginRun({ adapters: toy.adapters, workflow, ...given, workspace: toy.workspace, limit: { microUsd: 10 } });
  expect(await toy.go(workflow)).toMatchObject({ kind: "waiting", for: "budget" });
  expect(stopped.toSorted()).toEqual(["one", "two"]);
  const journal = await Array.fromAsync(toy.store.readJournal({ run: ID }));
  const ended = journal.filter(({ kind }) => kind === "step.interrupted");
  expect(ended.map(({ body }) => body["spent"])).toEqual(
    [1, 2].map(() => ({ tokens: 1, microUsd: 6, milliseconds: 0 })),
  );
  // Both are in the budget: a limit below their sum starts nothing.
  await raiseLimits({ adapters: toy.adapters, run: ID, limit: { microUsd: 12 } });
  expect(await toy.go(workflow)).toMatchObject({ kind: "waiting", for: "budget" });
  expect(stopped).toHaveLength(2);
});

test("a call of an agent without usage reserves an estimate, and holds it while its usage is unknown", async () => {
  let calls = 0;
  const reserved: number[] = [];
  const toy = await startTestRunInWorktree(
    () => {
      calls += 1;
      return { usage: { inputTokens: null, outputTokens: null, microUsd: null } };
    },
    { usage: false, cost: false },
  );
  const adapters = { ...toy.adapters, assumedTokens: 40 };
  const work: StageFunction<State> = async ({ agent }) => {
    for (let i = 1; i <= 5; i += 1) await agent({ ...CALL, name: `edit-${i}` });
    return { event: "worked", reason: "did it" };
  };
  const workflow = define({ work });
  const given = { id: ID, work: { kind: "none" }, inputs: TOY_INPUTS, config: TOY_CONFIG } as const;
  await beginRun({ adapters, workflow, ...given, workspace: toy.workspace, limit: { tokens: 1000 } });
  expect(await toy.go(workflow, { adapters })).toMatchObject({ kind: "done" });
  for await (const { kind, body } of toy.store.readJournal({ run: ID }))
    if (kind === "step.started" && typeof body["estimate"] === "object" && body["estimate"] !== null)
      reserved.push((body["estimate"] as { tokens: number }).tokens);
  expect(reserved).toEqual([40, 40, 40, 40, 40]);
  const { budget } = (await toy.store.latest(ID))?.planes.position ?? expect.fail();
  expect(budget).toMatchObject({ spent: { tokens: 0, uncounted: 5 }, held: { tokens: 200 } });
  expect(calls).toBe(5);
});

test("a limit is passed by at most one call of an agent without usage", async () => {
  let calls = 0;
  const toy = await startTestRunInWorktree(
    () => {
      calls += 1;
      return { usage: { inputTokens: null, outputTokens: null, microUsd: null } };
    },
    { usage: false, cost: false },
  );
  const work: StageFunction<State> = async ({ agent }) => {
    for (let i = 1; i <= 20; i += 1) await agent({ ...CALL, name: `edit-${i}` });
    return { event: "worked", reason: "did it" };
  };
  const workflow = define({ work });
  const given = { id: ID, work: { kind: "none" }, inputs: TOY_INPUTS, config: TOY_CONFIG } as const;
  await beginRun({ adapters: toy.adapters, workflow, ...given, workspace: toy.workspace, limit: { tokens: 1000 } });
  expect(await toy.go(workflow)).toMatchObject({ kind: "waiting", for: "budget" });
  // Without a known call, each counts as a tenth of the limit.
  expect(calls).toBe(10);
});

test("a call whose agent reports no tokens is uncounted, not zero", async () => {
  const toy = await startTestRunInWorktree(() => ({
    usage: { inputTokens: null, outputTokens: null, microUsd: null },
  }));
  const workflow = define({ work: calling([]) });
  await begin(toy.adapters, workflow, toy.workspace);
  await toy.go(workflow);
  const { spent } = (await toy.store.latest(ID))?.planes.position.budget ?? expect.fail();
  expect(spent).toMatchObject({ tokens: 0, uncounted: 1, unpriced: 1 });
});

test("a turn that ended while Holdfast was not running is adopted from the agent's own record, with its tokens, once", async () => {
  const record = new Map<string, string>();
  let calls = 0;
  const sessions = sessionsIn(record);
  const toy = await startTestRunInWorktree(
    (task, root) => {
      calls += 1;
      task.onEvent({ kind: "session", id: "s-1" });
      writeFileSync(join(root, "made.txt"), "made");
      record.set("s-1", `${task.prompt}>the answer`);
      throw new Error("the process dies here");
    },
    { resume: true },
    sessions,
  );
  const reports: AgentReport[] = [];
  const workflow = define({ work: calling(reports) });
  await begin(toy.adapters, workflow, toy.workspace);
  expect(await toy.crash(workflow, 3, "before")).toBe("died");
  expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
  expect(calls).toBe(1);
  const tokens = "do it>the answer".length;
  expect(reports).toMatchObject([{ outcome: "completed", text: "the answer", session: "s-1", usage: usage(tokens) }]);
  expect((await toy.store.latest(ID))?.planes.position.budget.spent.tokens).toBe(tokens);
  expect(toy.file("made.txt")).toBe(true);
});

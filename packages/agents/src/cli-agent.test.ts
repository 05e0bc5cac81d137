import { existsSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import fc from "fast-check";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { AgentEvent, AgentTask } from "@holdfast/core/agent";
import { systemClock } from "@holdfast/platform/clock";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { appears, assertGone, prepareCall } from "@holdfast/testing/agent-contract";
import type { AgentExit } from "./agent-process.ts";
import {
  CLI_CAPABILITIES,
  type CliAdapter,
  type CliCall,
  type CliResult,
  classifyResult,
  createCliAgent,
  createWaitTimeout,
  newSessionId,
  permissionArgs,
} from "./cli-agent.ts";

describe("cli agent", () => {
  /** A program that prints `session X`, `text X`, `end X` or `fail X`, and counts its lines. */
  interface Toy {
    readonly lines: number;
    readonly last: string;
  }

  const TOY: CliAdapter<Toy> = {
    name: "toy",
    title: "Toy",
    program: "toy",
    install: "Build one.",
    capabilities: { ...CLI_CAPABILITIES, chooseSession: true, cost: false },
    sessions: null,
    initial: { lines: 0, last: "" },
    plan: ({ task, session }) => ({
      kind: "start",
      args: ["--session", session ?? "none", task.prompt],
      env: { TOY: "from the plan" },
      before: null,
    }),
    read(state, line) {
      const [word, ...rest] = line.split(" ");
      const text = rest.join(" ");
      const events: AgentEvent[] =
        word === "session" ? [{ kind: "session", id: text }] : word === "text" ? [{ kind: "text", text }] : [];
      return { state: { lines: state.lines + 1, last: line }, events };
    },
    end({ state: { last } }) {
      if (last.startsWith("end ")) return { kind: "completed", text: last.slice(4) };
      if (!last.startsWith("fail ")) return { kind: "open" };
      return { kind: "failed", cause: "overload", message: last.slice(5), hint: null, until: null };
    },
    usage: ({ lines }) => ({ inputTokens: lines, outputTokens: 0, microUsd: null }),
  };

  function scene(script: string, change: Partial<CliAdapter<Toy>> = {}) {
    const folder = scratchDirectory(onTestFinished);
    const cwd = scratchDirectory(onTestFinished);
    writeFileSync(join(folder, "toy"), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    const agent = createCliAgent({ ...TOY, ...change }, { clock: systemClock });
    const env = { PATH: `${folder}${delimiter}${process.env["PATH"] ?? ""}` };
    const start = (change: Partial<AgentTask> = {}) => {
      const call = prepareCall({ cwd }, { env, ...change });
      return { ...call, outcome: agent.run(call.task) };
    };
    return { folder, cwd, env, start };
  }

  const ids = (events: readonly AgentEvent[]) =>
    events.flatMap((event) => (event.kind === "session" ? [event.id] : []));

  test("the session is reported once, before the program starts; the plan's environment is the child's", async () => {
    const { start, cwd, env } = scene('[ -e reported ] || exit 9; echo "session $2"; echo "end $TOY"');
    const events: AgentEvent[] = [];
    const { outcome, task } = start({
      env: { ...env, TOY: "from the task" },
      onEvent(event) {
        events.push(event);
        if (event.kind === "session") writeFileSync(join(cwd, "reported"), "");
      },
    });
    expect(await outcome).toMatchObject({ kind: "completed", text: "from the plan", usage: { inputTokens: 2 } });
    expect(ids(events)).toEqual([(await outcome).session]);
    assertGone(task.mark);
  });

  test("an agent that chooses its session itself reports it", async () => {
    const { start } = scene("echo session own; echo session own; echo end ok", {
      capabilities: { ...TOY.capabilities, chooseSession: false },
    });
    const { outcome, events } = start();
    expect(await outcome).toMatchObject({ kind: "completed", session: "own" });
    expect(ids(events)).toEqual(["own"]);
  });

  test("a chosen session that was used before is not chosen again", async () => {
    const seen: string[] = [];
    const isTaken = (id: string): boolean => seen.push(id) === 1;
    const { start } = scene("echo end ok", { isTaken });
    const { session } = await start().outcome;
    expect(seen).toHaveLength(2);
    expect(session).toBe(seen[1]);
  });

  test.each([{ session: "../../x" }, { session: "--yolo" }, { session: "s1", forkAt: "--yolo" }])(
    "an id that is not a session id counts as a lost session and becomes no argument: %j",
    async (ids) => {
      const { start, cwd } = scene("touch started; echo end ok");
      const { outcome } = start(ids);
      expect(await outcome).toMatchObject({ kind: "failed", cause: "session_lost" });
      expect(existsSync(join(cwd, "started"))).toBe(false);
    },
  );

  test("a rejected plan starts no process and costs nothing", async () => {
    const refuse = (call: CliCall) =>
      ({ kind: "refused", cause: "session_lost", message: `no ${call.session}`, hint: null, until: null }) as const;
    const { start, cwd } = scene("touch started", { plan: refuse });
    const { outcome, events } = start({ session: "old" });
    expect(await outcome).toMatchObject({ cause: "session_lost", message: "no old", session: "old", instant: true });
    expect((await outcome).usage).toEqual({ inputTokens: 0, outputTokens: 0, microUsd: 0 });
    expect([existsSync(join(cwd, "started")), events]).toEqual([false, []]);
  });

  test("an agent that cannot fork does not continue the session instead", async () => {
    const { start, cwd } = scene("touch started; echo end ok");
    expect(await start({ session: "old", forkAt: "m" }).outcome).toMatchObject({
      cause: "session_lost",
      session: "old",
    });
    expect(existsSync(join(cwd, "started"))).toBe(false);
  });

  test("a program behind a wrapper is started directly", async () => {
    const { start, folder } = scene("echo end wrapper", {
      native: (path) => [path.replace(/toy$/, "native"), "first"],
    });
    writeFileSync(join(folder, "native"), '#!/bin/sh\necho "end native $1 $2"\n', { mode: 0o755 });
    expect(await start().outcome).toMatchObject({ kind: "completed", text: "native first --session" });
  });

  test("a killed call is still counted, and a reported failure takes precedence over the exit code", async () => {
    const killed = scene("echo text one; echo text two; kill -9 $$").start();
    expect(await killed.outcome).toMatchObject({ cause: "killed", instant: false, usage: { inputTokens: 2 } });
    expect(await scene("echo fail busy; exit 9").start().outcome).toMatchObject({ cause: "overload", message: "busy" });
    expect(await scene("echo end ok; exit 9").start().outcome).toMatchObject({ cause: "crash" });
    expect(await scene("echo text hm").start().outcome).toMatchObject({
      cause: "crash",
      message: "Toy ended without a result",
    });
  });

  test("a task without an idle limit is never ended for silence", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const { start, cwd } = scene("touch up; while [ ! -e more ]; do sleep 0.05; done; echo end ok");
    const { outcome } = start({ idleMs: null });
    await appears({ cwd }, "up");
    vi.advanceTimersByTime(24 * 3_600_000);
    writeFileSync(join(cwd, "more"), "");
    expect(await outcome).toMatchObject({ kind: "completed", text: "ok" });
  });

  test("an agent that only reports that it waits is ended, and fails with what it waits for", async () => {
    const { start } = scene("while :; do echo wait for the net; sleep 0.05; done", {
      read: (_, line) => ({ state: { lines: 1, last: line }, events: [], waiting: line.startsWith("wait") }),
      end: ({ state: { last } }) => ({ kind: "waiting", cause: "network", message: last, hint: null, until: null }),
    });
    const { outcome, task } = start({ idleMs: 5000 });
    expect(await outcome).toMatchObject({
      kind: "failed",
      cause: "network",
      message: "wait for the net",
      instant: false,
    });
    assertGone(task.mark);
  });

  test("output after the stop does not hide what the agent waited for", async () => {
    const { start } = scene(
      "trap 'echo end cancelled; exit 0' TERM; while :; do echo wait for the net; sleep 0.05; done",
      {
        read: (_, line) => ({ state: { lines: 1, last: line }, events: [], waiting: line.startsWith("wait") }),
        end: ({ state: { last } }) =>
          last.startsWith("wait")
            ? { kind: "waiting", cause: "network", message: last, hint: null, until: null }
            : { kind: "completed", text: last },
      },
    );
    const { outcome, events } = start({ idleMs: 5000 });
    expect(await outcome).toMatchObject({ kind: "failed", cause: "network", message: "wait for the net" });
    expect(events).toContainEqual({ kind: "raw", line: "end cancelled" });
  });
});

describe("judge end", () => {
  const EXIT: AgentExit = {
    kind: "exited",
    code: 0,
    signal: null,
    reason: null,
    survivors: null,
    milliseconds: 60_000,
    stdout: "",
    stderr: "",
  };
  const COMPLETED: CliResult = { kind: "completed", text: "Done." };
  const REFUSED: CliResult = { kind: "failed", cause: "overload", message: "busy", hint: null, until: null };

  function judge(end: CliResult, exit: Partial<AgentExit> = {}, worked = true) {
    const task = { timeoutMs: 1000, idleMs: 1000 };
    return classifyResult({ end, exit: { ...EXIT, ...exit }, title: "Toy", worked, now: 0, task });
  }

  const anyExit = fc.record({
    kind: fc.constantFrom("exited", "signalled", "timed_out", "idle", "interrupted", "not_started"),
    code: fc.option(fc.integer({ min: 0, max: 255 }), { nil: null }),
    survivors: fc.option(fc.constant("7 (sh)"), { nil: null }),
  }) satisfies fc.Arbitrary<Partial<AgentExit>>;

  test("only a terminal event, exit 0 and no process left running is a success", () => {
    fc.assert(
      fc.property(fc.constantFrom(COMPLETED, REFUSED, { kind: "open" } as const), anyExit, (end, exit) => {
        const clean = exit.kind === "exited" && exit.code === 0 && exit.survivors === null;
        expect(judge(end, exit).kind).toBe(end.kind === "completed" && clean ? "completed" : "failed");
      }),
    );
  });

  test("the agent's report takes precedence over its exit code, and our reason for the stop over both", () => {
    expect(judge(REFUSED, { code: 1 })).toMatchObject({ cause: "overload", message: "busy" });
    expect(judge(REFUSED)).toMatchObject({ cause: "overload" });
    expect(judge(REFUSED, { kind: "idle" })).toMatchObject({ cause: "hang" });
    expect(judge(COMPLETED, { kind: "interrupted" })).toMatchObject({ cause: "interrupted" });
    expect(judge(COMPLETED, { code: 1 })).toMatchObject({ cause: "crash" });
    expect(judge({ kind: "open" })).toMatchObject({ cause: "crash", message: "Toy ended without a result" });
  });

  test("only silence is explained by what the agent waits for", () => {
    const waiting: CliResult = { ...REFUSED, kind: "waiting" };
    expect(judge(waiting, { kind: "idle" })).toMatchObject({ cause: "overload", message: "busy" });
    expect(judge(waiting, { kind: "idle", survivors: "7 (sh)" })).toMatchObject({ cause: "hang" });
    expect(judge(waiting, { kind: "interrupted" })).toMatchObject({ cause: "interrupted" });
    expect(judge(waiting, { kind: "timed_out" })).toMatchObject({ cause: "timeout" });
    expect(judge(waiting)).toMatchObject({ cause: "crash" });
  });

  test("an end is instant if it came soon and before any work", () => {
    expect(judge({ kind: "open" }, { code: 1, milliseconds: 900 }, false)).toMatchObject({ instant: true });
    expect(judge({ kind: "open" }, { code: 1, milliseconds: 900 }, true)).toMatchObject({ instant: false });
    expect(judge({ kind: "open" }, { code: 1 }, false)).toMatchObject({ instant: false });
    for (const kind of ["idle", "timed_out", "interrupted"] as const)
      expect(judge({ kind: "open" }, { kind, milliseconds: 900 }, false)).toMatchObject({ instant: false });
  });
});

describe("choose session", () => {
  const CALL = { mark: "store/run/1/impl", iteration: 1, attempt: 1 };
  const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/;

  test("the same call has the same id, another call another one", () => {
    const id = newSessionId(CALL, () => false);
    expect(id).toMatch(UUID);
    expect(newSessionId({ ...CALL }, () => false)).toBe(id);
    for (const change of [{ mark: "store/run/2/impl" }, { iteration: 2 }, { attempt: 2 }])
      expect(newSessionId({ ...CALL, ...change }, () => false)).not.toBe(id);
  });

  test("a used session id is skipped", () => {
    const first = newSessionId(CALL, () => false);
    const second = newSessionId(CALL, (id) => id === first);
    expect(second).toMatch(UUID);
    expect(second).not.toBe(first);
  });

  test("the id shows the kind of the session", () => {
    expect(newSessionId(CALL, () => false, "5")).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-a/);
  });
});

describe("waiting watch", () => {
  test("only lines that report waiting end the agent, however many they are", async () => {
    const watch = createWaitTimeout(40);
    const busy = setInterval(() => watch.line(true), 5);
    watch.signal.addEventListener("abort", () => clearInterval(busy));
    while (!watch.signal.aborted) await pause(5);
  });

  test("another line cancels the timer, and so does the end", async () => {
    const watch = createWaitTimeout(20);
    watch.line(true);
    watch.line(false);
    await pause(60);
    watch.line(true);
    watch.stop();
    await pause(60);
    expect(watch.signal.aborted).toBe(false);
  });

  test("without a limit there is no end", async () => {
    const watch = createWaitTimeout(null);
    watch.line(true);
    await pause(30);
    expect(watch.signal.aborted).toBe(false);
  });

  test("the third prompt in a row that is too long ends the call, unless a tool call is in between", () => {
    const watch = createWaitTimeout(null);
    for (let count = 0; count < 5; count += 1) {
      watch.overflow();
      watch.overflow();
      watch.acted();
    }
    expect(watch.signal.aborted).toBe(false);
    for (let count = 0; count < 3; count += 1) watch.overflow();
    expect(watch.signal.aborted).toBe(true);
  });
});

describe("permission args", () => {
  const join = (...extra: readonly string[]) =>
    permissionArgs({ ours: ["--yolo"], extra, words: ["--yolo", "--approval-mode"] }).join(" ");

  test("the user's arguments follow ours, or replace them", () => {
    expect(join()).toBe("--yolo");
    expect(join("--sandbox")).toBe("--yolo --sandbox");
    expect(join("--approval-mode", "plan")).toBe("--approval-mode plan");
    expect(join("--sandbox", "--approval-mode=plan")).toBe("--sandbox --approval-mode=plan");
  });
});

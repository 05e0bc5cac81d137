import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { newBudget } from "@holdfast/core/budget";
import { sampleHolder, sampleRunning } from "@holdfast/test-support/sample-run";
import type { WaitingFor } from "@holdfast/core/run";
import type { RunStatus } from "@holdfast/core/status";
import type { RunDetails } from "../../run-status.ts";
import type { QueueEntry } from "../../worker/read-queue.ts";
import {
  type ShownStatus,
  answerCommands,
  nextText,
  raiseBudgetFlags,
  sparkline,
  statusText,
  statusesText,
} from "./status-text.ts";
import { displayWidth } from "./text.ts";

describe("view", () => {
  const NOW = Date.parse("2026-11-15T12:00:00.000Z");
  const PAGE = { width: 80, color: false, terminal: true, now: NOW, offset: () => 0, program: "holdfast" };
  const base: RunDetails = {
    run: {
      id: "issue-42",
      createdAt: "2026-11-15T11:40:00.000Z",
      workflow: "impl",
      work: { kind: "issue", number: 42 },
      forkedFrom: null,
      labels: {},
      state: { kind: "active" },
      unfinishedRestore: null,
      checkpoints: 12,
      latest: { sequence: 12, createdAt: "2026-11-15T11:58:00.000Z", stage: "review", iteration: 3 },
      entries: 90,
    },
    status: sampleRunning(),
    resumable: false,
    priority: 0,
    submitted: false,
    stage: "review",
    iteration: 3,
    since: "2026-11-15T11:58:00.000Z",
    scores: [60, 75, 70].map((score, at) => ({ iteration: at + 1, score })),
    best: { sequence: 8, score: 75 },
    budget: {
      spent: { tokens: 120_000, microUsd: 1_250_000, milliseconds: 900_000 },
      reserved: { tokens: 0, microUsd: 0, milliseconds: 0 },
      limit: { tokens: null, microUsd: 5_000_000, milliseconds: null },
    },
    graph: null,
    loop: null,
    step: "reviewer",
    last: { at: "2026-11-15T11:58:05.000Z", text: "reviewer began" },
    worktree: "/home/ann/src/shop-worktrees/issue-42",
    branch: "holdfast/issue-42",
    issue: { number: 42, title: "Login fails" },
    pullRequest: null,
    denied: [],
    damaged: [],
    unpushed: null,
    raise: null,
    continues: null,
    restored: null,
    restart: null,
  };

  test("an unfinished run", () => {
    expect(statusText(base, PAGE)).toMatchInlineSnapshot(`
      "issue-42  running
      Held by holdfast run 42 (pid 4711 on laptop) since 2026-11-15 11:40:00 UTC (20
      min ago); last heartbeat 10 s ago.
      work        issue #42: Login fails
      stage       review #3, in reviewer (entered 2 min ago)
      last        reviewer began (1 min ago)
      scores      60 75 70  ▅▇▆, best 75 at @8
      spent       120k tokens, $1.25 of $5.00, 15 min
      saved       12 checkpoints, newest @12 2 min ago
      branch      holdfast/issue-42
      worktree    /home/ann/src/shop-worktrees/issue-42
      "
    `);
    expect(nextText(base, PAGE)).toMatchInlineSnapshot(
      `
    "Watch it: holdfast status issue-42 --watch
    Stop it:  holdfast stop issue-42"
  `,
    );
  });

  test("a submitted run says what the queue says of it, alone and in a list", () => {
    const entry: QueueEntry = {
      run: "issue-42",
      store: "s",
      repository: "acme/shop",
      queue: "claude",
      priority: 10,
      needs: [],
      state: "waiting",
      wakeAt: NOW + 90_000,
      worker: null,
      why: "2 attempts failed",
      failures: 2,
    };
    const crashed: RunStatus = { kind: "crashed", certain: true, holder: sampleHolder };
    const first = { ...base, submitted: true, last: null };
    const status: RunStatus = { kind: "queued", holder: null, position: null };
    const now: QueueEntry = { ...entry, priority: 0, wakeAt: 0, why: "no worker has gpu", failures: 0 };
    const active: QueueEntry = { ...now, state: "active", worker: "build-1", why: null };
    const shown = (details: ShownStatus) => statusText(details, PAGE).split("\nwork")[0]?.replaceAll("\n", " ");
    expect([
      shown({ ...first, status, queued: now }),
      shown({ ...first, status, queued: active }),
      shown({ ...first, status, queued: null }),
      shown({ ...first, status: crashed, queued: entry }),
      shown({ ...first, queued: { ...entry, why: "process 4711 on laptop executes it" } }),
    ]).toEqual([
      "issue-42  queued Submitted. In queue claude, due now: no worker has gpu.",
      "issue-42  queued Submitted; build-1 starts it.",
      "issue-42  queued Submitted; it waits for a worker.",
      expect.stringMatching(/is saved\. In queue claude, priority high, due in 1 min: 2 attempts failed\.$/),
      expect.stringMatching(/last heartbeat 10 s ago\.$/),
    ]);
    const asks = { kind: "waiting", for: "you", reason: "Log in", until: null, due: false, question: null } as const;
    const signalled: QueueEntry = { ...now, wakeAt: null, why: "1 attempt failed; its run waits for you", failures: 1 };
    expect(shown({ ...first, status: asks, queued: signalled })).toBe("issue-42  waiting for you Log in.");
    expect(shown({ ...first, status: asks, queued: { ...signalled, why: "it failed 6 times", failures: 6 } })).toMatch(
      /Log in\. In queue claude: it failed 6 times\.$/,
    );
    const paused: RunStatus = { kind: "paused", reason: "lunch", started: true };
    expect(nextText({ ...first, status: paused }, PAGE)).toBe("Continue with: holdfast submit issue-42");
    const next = (what: WaitingFor) => nextText({ ...first, status: { ...asks, for: what } }, PAGE);
    expect([next("you"), next("budget"), next("session"), next("quota")]).toEqual([
      "Answer with: holdfast approve issue-42 yes",
      "Give it more: holdfast submit issue-42 --max-cost USD",
      "Continue with: holdfast submit issue-42",
      "Show the queue: holdfast queue",
    ]);
    expect(nextText({ ...first, status: crashed }, PAGE)).toBe(
      "Show the queue: holdfast queue\nContinue it here: holdfast resume issue-42",
    );
    expect(nextText({ ...first, status: { ...sampleRunning(), hostKnown: false } }, PAGE)).toBe(
      "Stop it: holdfast queue --cancel issue-42\nIf it does not answer, take it: holdfast take issue-42",
    );
    expect(statusesText([{ ...first, scores: [], status, queued: now }], PAGE)).toMatch(
      /WHY\n.*  no worker has gpu\n$/,
    );
    const later: QueueEntry = { ...now, wakeAt: NOW + 90_000, why: null };
    expect(statusesText([{ ...first, status, queued: later }], PAGE)).toMatch(/  due in 1 min\n$/);
  });

  test("the reason why a remote lacks files is not cut", () => {
    const problem = `possible secret (an AWS access key) in config/production/settings.env, line 12, of issue-42@3`;
    const text = statusText({ ...base, unpushed: { remote: "origin", snapshots: 1, problem } }, PAGE);
    expect(text.replaceAll(/\s+/g, " ")).toContain(`files 1 snapshot not on origin yet: ${problem} branch`);
    expect(Math.max(...text.split("\n").map(displayWidth))).toBeLessThanOrEqual(80);
  });

  test("a fork or an import without work yet is resumed, and not called saved by hand", () => {
    const untouched: RunDetails = { ...base, since: null, status: { kind: "paused", reason: null, started: true } };
    expect(statusText(untouched, PAGE)).toContain("issue-42  paused\nImported; no process has executed it yet.");
    const forked: RunDetails = { ...untouched, run: { ...base.run, forkedFrom: { id: "first@3", digest: "" } } };
    expect(statusText(forked, PAGE)).toContain("issue-42  paused\nForked; no process has executed it yet.");
    expect(nextText(untouched, PAGE)).toBe("Continue with: holdfast resume issue-42");
  });

  test("a question that any text answers has no list of answers", () => {
    const question = { name: "conflict", question: "What applies?", options: [] };
    const status = { kind: "waiting", for: "you", reason: "What applies?", until: null, due: false, question } as const;
    expect(statusText({ ...base, status }, PAGE)).toContain("issue-42  waiting for you\nWhat applies?\n");
  });

  test("the condition that it waits for, or the reason of its end, comes first", () => {
    const shown = (status: RunDetails["status"], raise: string | null = null) => {
      const text = statusText({ ...base, status }, PAGE);
      for (const line of text.split("\n")) expect(displayWidth(line), line).toBeLessThanOrEqual(80);
      return `${text.split("\nwork")[0]}\n> ${nextText({ ...base, status, raise }, PAGE)}`;
    };
    expect(
      [
        shown({ kind: "crashed", certain: true, holder: sampleHolder }),
        shown({ kind: "crashed", certain: false, holder: sampleHolder }),
        shown({ kind: "paused", reason: null, started: true }),
        shown({ kind: "paused", reason: "paused by eva: lunch", started: true }),
        shown(sampleRunning({ hostKnown: false })),
        shown(sampleRunning({ suspended: true, silentSince: sampleHolder.heartbeatAt })),
        shown(sampleRunning({ stopping: "pause" })),
        shown({ kind: "queued", holder: sampleHolder, position: 2 }),
        shown({
          kind: "waiting",
          for: "quota",
          reason: "The provider's limit is reached",
          until: "2026-11-15T14:00:00.000Z",
          due: false,
          question: null,
        }),
        shown({
          kind: "waiting",
          for: "you",
          reason: "A decision is needed",
          until: null,
          due: false,
          question: { name: "merge", question: "Merge it?", options: ["yes", "no"] },
        }),
        shown({ kind: "done", at: "2026-11-15T11:59:00.000Z" }),
        shown({
          kind: "failed",
          at: "2026-11-15T11:59:00.000Z",
          reason: "Review scores showed no improvement for 4 consecutive failures",
          limit: false,
        }),
        shown({ kind: "failed", at: "2026-11-15T11:59:00.000Z", reason: "20 iterations", limit: true }, "max"),
        shown({ kind: "aborted", at: null, reason: "aborted by eva" }),
        shown({ kind: "saved", holder: null }),
      ].join("\n\n"),
    ).toMatchInlineSnapshot(`
      "issue-42  crashed
      Its process (pid 4711 on laptop) ended unexpectedly (kill, crash or power cut).
      What it had finished is saved.
      > Continue with: holdfast resume issue-42

      issue-42  crashed: presumed
      Its process (pid 4711 on laptop) has sent no heartbeat since 2026-11-15 11:59:50
      UTC (10 s ago). This host cannot check whether it exited.
      > Continue with: holdfast resume issue-42

      issue-42  paused
      No process executes it. Everything is saved.
      > Continue with: holdfast resume issue-42

      issue-42  paused
      paused by eva: lunch.
      > Continue with: holdfast resume issue-42

      issue-42  running: other host
      Held by holdfast run 42 (pid 4711 on laptop); last heartbeat 10 s ago. This host
      cannot check whether that process is alive. The worktree here may be older.
      > If it does not answer, take it: holdfast take issue-42

      issue-42  running: suspended
      Held by holdfast run 42 (pid 4711 on laptop) since 2026-11-15 11:40:00 UTC (20
      min ago); last heartbeat 10 s ago. The operating system has stopped the process.
      > Watch it: holdfast status issue-42 --watch
      Stop it:  holdfast stop issue-42
      If it does not answer, take it: holdfast take issue-42

      issue-42  running: pausing
      Held by holdfast run 42 (pid 4711 on laptop) since 2026-11-15 11:40:00 UTC (20
      min ago); last heartbeat 10 s ago.
      > Watch it: holdfast status issue-42 --watch
      Stop it:  holdfast stop issue-42

      issue-42  queued: 2
      Held by holdfast run 42 (pid 4711 on laptop), which waits for a slot.
      > Stop it:  holdfast stop issue-42

      issue-42  waiting for quota
      The provider's limit is reached. Until 2026-11-15 14:00:00 UTC (in 2 h); nothing
      continues it then.
      > Continue with: holdfast resume issue-42

      issue-42  waiting for you
      A decision is needed. It asks: Merge it? (yes / no)
      > Answer with: holdfast approve issue-42 yes
               or: holdfast approve issue-42 no

      issue-42  done
      Done 1 min ago.
      > 

      issue-42  failed
      Review scores showed no improvement for 4 consecutive failures.
      > What happened: holdfast events issue-42
      Its checkpoints: holdfast list issue-42
      Restart from checkpoint N: holdfast resume issue-42@N --force

      issue-42  failed: limit reached
      20 iterations.
      > Allow more: holdfast resume issue-42 --max N

      issue-42  aborted
      aborted by eva.
      > Restart from its last checkpoint: holdfast resume issue-42@latest --force

      issue-42  saved
      Saved by hand: no workflow executes it.
      > Its checkpoints: holdfast list issue-42"
    `);
  });

  test("a run that has not started is not called saved by hand", () => {
    const text = statusText({ ...base, status: { kind: "paused", reason: null, started: false } }, PAGE);
    expect(text).toContain("The same `run` command starts it.");
    expect(text).not.toContain("by hand");
  });

  test("a fork without its first checkpoint names the command that completes it", () => {
    const run = { ...base.run, forkedFrom: { id: "first@3", digest: "" }, latest: null } as const;
    const half: RunDetails = { ...base, run, status: { kind: "paused", reason: null, started: false } };
    expect(statusText(half, PAGE)).toContain("The fork is not complete: it has no checkpoint.");
    expect(nextText(half, PAGE)).toContain(`Complete it:         holdfast fork first@3 --as ${run.id}\n`);
  });

  test("several in one table; a wide one also has priority and heartbeat", () => {
    const statuses: readonly RunDetails[] = [
      base,
      { ...base, status: { kind: "queued", holder: sampleHolder, position: 1 }, priority: 10 },
      { ...base, status: { kind: "crashed", certain: true, holder: sampleHolder } },
    ];
    expect(statusesText(statuses, PAGE)).toMatchInlineSnapshot(`
      "RUN       STATUS     STAGE      SCORES  LAST
      issue-42  running    review #3  ▅▇▆     reviewer began
      issue-42  queued: 1  review #3  ▅▇▆     reviewer began
      issue-42  crashed    review #3  ▅▇▆     reviewer began
      "
    `);
    expect(statusesText(statuses, { ...PAGE, width: 120 })).toMatchInlineSnapshot(`
      "RUN       STATUS     STAGE      PRIORITY  HEARTBEAT  SCORES  SPENT                       LAST
      issue-42  running    review #3            10 s ago   ▅▇▆     120k tokens, $1.25, 15 min  reviewer began
      issue-42  queued: 1  review #3  high      10 s ago   ▅▇▆     120k tokens, $1.25, 15 min  reviewer began
      issue-42  crashed    review #3            10 s ago   ▅▇▆     120k tokens, $1.25, 15 min  reviewer began
      "
    `);
  });
});

describe("answer commands", () => {
  test("each answer is a command of its own that can be pasted as it is printed", () => {
    expect(answerCommands("holdfast approve r", ["again", "try it"])).toBe(
      'Answer with: holdfast approve r again\n         or: holdfast approve r "try it"',
    );
    expect(answerCommands("holdfast approve r", ['say "$x"'])).toBe('Answer with: holdfast approve r "say \\"\\$x\\""');
    expect(answerCommands("holdfast approve r", [])).toBe("Answer with: holdfast approve r ANSWER");
  });
});

describe("raising limits", () => {
  const budget = newBudget({ milliseconds: 5000, tokens: 100 });

  test("the exhausted limit is raised", () => {
    expect(raiseBudgetFlags({ ...budget, spent: { tokens: 3, microUsd: 9, milliseconds: 6000 } })).toBe(
      "--max-total-time TIME",
    );
    expect(raiseBudgetFlags({ ...budget, spent: { tokens: 100, microUsd: 0, milliseconds: 6000 } })).toBe(
      "--max-tokens N --max-total-time TIME",
    );
  });

  test("before one is exhausted, all limits: the next call would exceed one of them", () => {
    expect(raiseBudgetFlags(budget)).toBe("--max-tokens N --max-total-time TIME");
  });
});

describe("sparkline", () => {
  test("a curve of scores", () => {
    expect(sparkline([60, 75, 70, 65, 64])).toBe("▅▇▆▆▆");
    expect(sparkline([0, 100])).toBe("▁█");
    expect(sparkline([])).toBe("");
  });

  test("one character a score, the newest when there is no room, never lower for a higher score", () => {
    const bars = "▁▂▃▄▅▆▇█";
    fc.assert(
      fc.property(fc.array(fc.double({ noNaN: false })), fc.nat(20), (scores, width) => {
        const line = sparkline(scores, width);
        expect([...line]).toHaveLength(Math.min(scores.length, width));
        expect(sparkline(scores).endsWith(line)).toBe(true);
      }),
    );
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 100 }), fc.integer({ min: 0, max: 100 }), (a, b) => {
        const [low, high] = [Math.min(a, b), Math.max(a, b)];
        expect(bars.indexOf(sparkline([low]))).toBeLessThanOrEqual(bars.indexOf(sparkline([high])));
      }),
    );
  });
});

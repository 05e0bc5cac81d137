import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { newBudget } from "@holdfast/core/budget";
import type { RunDetails } from "../../run-status.ts";
import { answerCommands, nextText, raiseBudgetFlags, sparkline, statusText, statusesText } from "./status-text.ts";
import { displayWidth } from "./text.ts";

describe("view", () => {
  const NOW = Date.parse("2026-11-15T12:00:00.000Z");
  const PAGE = { width: 80, color: false, terminal: true, now: NOW, offset: () => 0, program: "holdfast" };
  const lease = {
    run: "issue-42",
    epoch: 3,
    owner: { token: "t", host: "laptop", pid: 4711, started: "1", boot: "b", label: "holdfast run issue-42" },
    takenAt: "2026-11-15T11:40:00.000Z",
    heartbeatAt: "2026-11-15T11:59:50.000Z",
  };
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
    standing: { kind: "stopped" },
    condition: { kind: "running", lease },
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
  };

  test("a run under way", () => {
    expect(statusText(base, PAGE)).toMatchInlineSnapshot(`
    "issue-42  running
    Held by holdfast run issue-42 (pid 4711 on laptop) since 2026-11-15 11:40:00 UTC
    (20 min ago); last sign of life 10 s ago.
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

  test("a fork, or an import, that nobody has worked on yet is gone on with, not called saved by hand", () => {
    const untouched: RunDetails = { ...base, condition: { kind: "manual" }, standing: { kind: "stopped" } };
    expect(statusText(untouched, PAGE)).toContain(
      "issue-42  stopped\nForked or imported; nobody has worked on it yet.",
    );
    expect(nextText(untouched, PAGE)).toBe("Go on with: holdfast resume issue-42");
  });

  test("what it waits for, or why it ended, stands first", () => {
    const shown = (condition: RunDetails["condition"], standing = base.standing) => {
      const text = statusText({ ...base, condition, standing }, PAGE);
      for (const line of text.split("\n")) expect(displayWidth(line), line).toBeLessThanOrEqual(80);
      return `${text.split("\nwork")[0]}\n> ${nextText({ ...base, condition, standing }, PAGE)}`;
    };
    expect(
      [
        shown({ kind: "crashed", lease }),
        shown({ kind: "stopped" }),
        shown({ kind: "held", lease }),
        shown({
          kind: "waiting",
          for: "quota",
          reason: "The provider's limit is reached",
          until: "2026-11-15T14:00:00.000Z",
          question: null,
        }),
        shown({
          kind: "waiting",
          for: "you",
          reason: "A decision is needed",
          until: null,
          question: { name: "merge", question: "Merge it?", options: ["yes", "no"] },
        }),
        shown({ kind: "done", at: "2026-11-15T11:59:00.000Z" }),
        shown({
          kind: "failed",
          at: "2026-11-15T11:59:00.000Z",
          reason: "Review scores showed no improvement for 4 consecutive failures",
        }),
        shown({ kind: "manual" }, { kind: "manual" }),
      ].join("\n\n"),
    ).toMatchInlineSnapshot(`
    "issue-42  crashed, resumable
    Its process (pid 4711 on laptop) ended without letting go. What it had finished
    is saved.
    > Go on with: holdfast resume issue-42

    issue-42  stopped, resumable
    Nobody works on it now. Everything is saved.
    > Go on with: holdfast resume issue-42

    issue-42  held elsewhere
    Held by holdfast run issue-42 (pid 4711 on laptop); last sign of life 10 s ago.
    From here it cannot be seen whether it still runs.
    > 

    issue-42  waiting: quota
    The provider's limit is reached. Until 2026-11-15 14:00:00 UTC (in 2 h).
    > Go on with: holdfast resume issue-42

    issue-42  waiting: you
    A decision is needed. It asks: Merge it? (yes / no)
    > Answer with: holdfast approve issue-42 yes
             or: holdfast approve issue-42 no

    issue-42  done
    Done 1 min ago.
    > 

    issue-42  failed
    Review scores showed no improvement for 4 consecutive failures.
    > What happened: holdfast events issue-42
    Begin again from a checkpoint: holdfast resume issue-42@N --force

    issue-42  manual
    Saved by hand: no workflow carries it.
    > Its checkpoints: holdfast list issue-42"
  `);
  });

  test("one that has not begun is not called saved by hand", () => {
    const text = statusText({ ...base, condition: { kind: "manual" }, standing: { kind: "new" } }, PAGE);
    expect(text).toContain("Started again with the same words, it begins.");
    expect(text).not.toContain("by hand");
  });

  test("several in one table", () => {
    expect(statusesText([base, { ...base, condition: { kind: "crashed", lease } }], PAGE)).toMatchInlineSnapshot(`
    "RUN       STATE               STAGE      SCORES  LAST
    issue-42  running             review #3  ▅▇▆     reviewer began
    issue-42  crashed, resumable  review #3  ▅▇▆     reviewer began
    "
  `);
  });
});

describe("answer commands", () => {
  test("each answer is a command of its own that can be pasted as it is printed", () => {
    expect(answerCommands("holdfast approve r", ["again", "go on"])).toBe(
      'Answer with: holdfast approve r again\n         or: holdfast approve r "go on"',
    );
    expect(answerCommands("holdfast approve r", ['say "$x"'])).toBe('Answer with: holdfast approve r "say \\"\\$x\\""');
    expect(answerCommands("holdfast approve r", [])).toBe("Answer with: holdfast approve r ANSWER");
  });
});

describe("give more", () => {
  const budget = newBudget({ milliseconds: 5000, tokens: 100 });

  test("what is used up is what is raised", () => {
    expect(raiseBudgetFlags({ ...budget, spent: { tokens: 3, microUsd: 9, milliseconds: 6000 } })).toBe(
      "--max-total-time TIME",
    );
    expect(raiseBudgetFlags({ ...budget, spent: { tokens: 100, microUsd: 0, milliseconds: 6000 } })).toBe(
      "--max-tokens N --max-total-time TIME",
    );
  });

  test("before anything is, all limits: the next call would go beyond one of them", () => {
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

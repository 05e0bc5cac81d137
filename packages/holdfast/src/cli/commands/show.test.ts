import { expect, test } from "vitest";
import {
  PAGE,
  sampleCheckpoint,
  samplePlanes,
  sampleRun,
  sampleRunning,
  sampleSummary,
} from "@holdfast/test-support/sample-run";
import { displayWidth } from "../output/text.ts";
import { checkpointText, runText } from "./show.ts";

test("a run with an owner", () => {
  const text = runText(
    {
      run: sampleRun({
        forkedFrom: { id: "first-try@3", digest: "" },
      }),
      status: sampleRunning({ hostKnown: false }),
      worktree: "/home/ann/src/shop-worktrees/fix-login",
      checkpoints: [sampleSummary(), sampleSummary({ sequence: 6, trigger: "stage" })],
      dropped: 5,
      effects: [{ key: "fix-login/finalize/push.3", kind: "push", target: "origin fix", state: "undone" }],
    },
    PAGE,
  );
  expect(text).toMatchInlineSnapshot(`
    "fix-login  running: other host
    work         issue #42
    workflow     impl
    stage        implement #2
    created      2026-11-15 10:00:00 UTC (2 h ago)
    saved        2026-11-15 11:55:00 UTC (5 min ago)
    forked from  first-try@3
    worktree     /home/ann/src/shop-worktrees/fix-login
    held by      holdfast run 42 (pid 4711 on laptop), last heartbeat 10 s ago
    journal      31 entries
    dropped      5 checkpoints by retention (holdfast events fix-login)

    Checkpoints (newest 2 of 7)
    CHECKPOINT   WHEN       TRIGGER  STAGE         ADDED
    fix-login@7  5 min ago  manual   implement #2  512 B
    fix-login@6  5 min ago  stage    implement #2  512 B

    Effects
      undone: push on origin fix
    "
  `);
});

test("a run without checkpoints", () => {
  const shown = {
    run: sampleRun({ checkpoints: 0, latest: null }),
    status: { kind: "saved", holder: null } as const,
    worktree: null,
    checkpoints: [],
    dropped: 0,
    effects: [],
  };
  expect(runText(shown, PAGE)).toMatchInlineSnapshot(`
    "fix-login  saved
    work        issue #42
    workflow    impl
    created     2026-11-15 10:00:00 UTC (2 h ago)
    journal     31 entries
    "
  `);
});

test("a checkpoint with all its planes", () => {
  const none = samplePlanes();
  const planes = samplePlanes({
    position: {
      ...none.position,
      attempts: { review: 2 },
      streaks: { no_improvement: 1 },
      score: 71,
      best: { sequence: 5, score: 82 },
      feedback: "Tests in auth fail: \x1b]0;owned\x07 see log",
      budget: { ...none.position.budget, spent: { tokens: 120_000, microUsd: 1_250_000, milliseconds: 90_500 } },
    },
    files: {
      tree: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
      snapshot: "c".repeat(40),
      ref: "refs/holdfast/fix-login/7",
      worktree: "/home/ann/src/shop",
      head: "d".repeat(40),
      branch: "refs/heads/fix-login",
      base: null,
      artifacts: [
        { path: "src/auth/login.ts", digest: "e".repeat(64), status: "modified" },
        { path: "src/日本語.ts", digest: "e".repeat(64), status: "created" },
        { path: '"evil\\nname"', digest: null, status: "deleted" },
      ],
      artifactCount: 14,
      skipped: [{ path: "data/model.bin", reason: "too_large", bytes: 31_000_000 }],
      nested: [],
      index: null,
      operation: "rebase",
    },
    conversation: {
      agent: "claude",
      session: "9f1c",
      transcript: { digest: "f".repeat(64), bytes: 812_345, text: "hello" },
      lastMessage: null,
    },
    effects: { entry: 12, pending: ["fix-login/pr/create"] },
    inputs: {
      issue: { number: 42, title: "Login fails", body: "", labels: [], state: "open", updatedAt: "" },
      task: null,
      base: null,
      plan: null,
    },
    config: { ...none.config, agent: "claude", model: "m-1", tools: ["bash", "edit"] },
  });
  const text = checkpointText(sampleCheckpoint({ planes, name: "before the refactor", tags: ["works"] }), PAGE);
  expect(text).toMatchInlineSnapshot(`
    "fix-login@7  @works  before the refactor
    taken       2026-11-15 11:55:00 UTC (5 min ago)
    trigger     manual
    parent      fix-login@6
    size        2.0 kB besides the files, 512 B added to the store
    digest      cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd

    Files
      worktree     /home/ann/src/shop
      branch       fix-login
      head         dddddddddddd
      tree         4b825dc642cb
      in progress  rebase
      changes      14 files against HEAD
        M src/auth/login.ts
        A src/日本語.ts
        D "evil\\nname"
        … and 11 more
        ! data/model.bin not saved: too large, 31 MB

    Position
      workflow    impl
      stage       implement #2
      score       71
      best        82 at @5
      attempts    review 2
      streaks     no_improvement 1
      spent       120k tokens, $1.25, 91 s
      feedback    Tests in auth fail: \\x1b]0;owned\\x07 see log

    State
      values      2 values: plan, step

    Conversation
      agent       claude
      session     9f1c
      transcript  812 kB, ffffffffffff

    Effects
      in flight   fix-login/pr/create

    Inputs
      issue       #42 Login fails (open)

    Config
      agent       claude
      model       m-1
      mode        default
      tools       bash, edit
    "
  `);
  for (const line of text.split("\n")) expect(displayWidth(line), line).toBeLessThanOrEqual(80);
});

test("a quarantined checkpoint is marked first", () => {
  const [, second] = checkpointText(sampleCheckpoint({ quarantined: true }), PAGE).split("\n");
  expect(second).toMatch(/^damaged +quarantined: no run resumes from it/);
  expect(checkpointText(sampleCheckpoint(), PAGE)).not.toContain("damaged");
});

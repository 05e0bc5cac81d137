import { describe, expect, test } from "vitest";
import { PAGE, sampleRun, sampleSummary } from "@holdfast/test-support/sample-run";
import { type ListedRun, checkpointsText, runsText, skippedLine, skippedPaths } from "./run-text.ts";
import { displayWidth } from "./text.ts";

describe("view", () => {
  test("runs at 80 columns", () => {
    const listed = (status: ListedRun["status"], run: Parameters<typeof sampleRun>[0] = {}): ListedRun => ({
      ...sampleRun(run),
      status,
    });
    const runs = [
      listed({ kind: "saved", holder: null }),
      listed(
        { kind: "waiting", for: "quota", reason: "5 h limit", until: null, due: false, question: null },
        {
          id: "issue-42-k3f9",
          state: { kind: "waiting", for: "quota", reason: "5 h limit", until: null },
          checkpoints: 120,
        },
      ),
      listed(
        { kind: "paused", reason: null, started: false },
        { id: "new", work: { kind: "none" }, latest: null, checkpoints: 0, createdAt: "2026-11-15T11:59:58Z" },
      ),
      listed(
        { kind: "done", at: "2026-11-14T12:00:00Z" },
        {
          id: "rewrite-everything-from-the-ground-up-k3f9",
          state: { kind: "done", at: "2026-11-14T12:00:00Z" },
          work: {
            kind: "task",
            text: "書き直す \x1b[31meverything\x1b[0m\nfrom the ground up, without breaking anything",
          },
          latest: { sequence: 3, createdAt: "2026-11-14T12:00:00Z", stage: "done", iteration: 0 },
        },
      ),
      listed(
        { kind: "aborted", at: "2026-10-01T12:00:00Z", reason: "x" },
        {
          id: "bad",
          state: { kind: "aborted", at: "2026-10-01T12:00:00Z", reason: "x" },
          latest: { sequence: 3, createdAt: "2026-08-01T12:00:00Z", stage: "review", iteration: 9 },
        },
      ),
    ];
    expect(runsText(runs, PAGE)).toMatchInlineSnapshot(`
      "RUN                                   STATUS               LATEST     WORK
      fix-login                             saved                5 min ago  issue #42
      issue-42-k3f9                         waiting for quota    5 min ago  issue #42
      new                                   paused: not started  just now
      rewrite-everything-from-the…-up-k3f9  done                 1 d ago    書き直す …
      bad                                   aborted              3 mo ago   issue #42
      "
    `);
  });

  test("a restore that did not finish is reported, unless a live process holds the run", () => {
    const run = sampleRun({ unfinishedRestore: "fix-login@1" });
    const holder = { label: "holdfast", pid: 1, host: "b", epoch: 1, takenAt: "", heartbeatAt: "" };
    const half = runsText([{ ...run, status: { kind: "crashed", certain: true, holder } }], PAGE);
    expect(half).toContain("half restored");
    expect(half).toContain("finish it:");
    const states = { starting: false, finishing: false, stopping: null, silentSince: null, suspended: false } as const;
    const live = runsText([{ ...run, status: { kind: "running", holder, ...states, hostKnown: true } }], PAGE);
    expect(live).toMatch(/^fix-login +running /m);
    expect(live).not.toMatch(/half|finish/);
  });

  test("checkpoints at 80 columns; empty columns are left out", () => {
    const summaries = [
      sampleSummary({
        name: "before the big refactor of the whole of the login",
        tags: ["works"],
        size: { logical: 1, added: 21_000_000 },
      }),
      sampleSummary({ sequence: 6, trigger: "conflict_resolved", score: 82.5 }),
      sampleSummary({ sequence: 5, trigger: "automatic", name: "\u202Etxt.exe" }),
    ];
    const text = checkpointsText(summaries, PAGE);
    expect(text).toMatchInlineSnapshot(`
      "CHECKPOINT   WHEN       TRIGGER            STAGE     SCORE  NAME
      fix-login@7  5 min ago  manual             impleme…         @works before the
                                                                  big refactor of the
                                                                  whole of the login
      fix-login@6  5 min ago  conflict_resolved  impleme…   82.5
      fix-login@5  5 min ago  automatic          impleme…         \\u202etxt.exe
      "
    `);
    for (const line of text.split("\n")) expect(displayWidth(line)).toBeLessThanOrEqual(80);
    expect(checkpointsText([sampleSummary()], PAGE)).not.toMatch(/SCORE|NAME/);
  });

  test("a quarantined checkpoint is shown as damaged", () => {
    const summaries = [sampleSummary({ quarantined: true, name: "n" }), sampleSummary({ sequence: 6 })];
    const text = checkpointsText(summaries, PAGE);
    expect(text).toMatchInlineSnapshot(`
    "CHECKPOINT   STATE    WHEN       TRIGGER  STAGE         ADDED  NAME
    fix-login@7  damaged  5 min ago  manual   implement #2  512 B  n
    fix-login@6           5 min ago  manual   implement #2  512 B
    "
  `);
    for (const line of text.split("\n")) expect(displayWidth(line)).toBeLessThanOrEqual(80);
  });

  test("in a file nothing is cut", () => {
    const name = "x".repeat(200);
    expect(checkpointsText([sampleSummary({ name })], { ...PAGE, width: Number.POSITIVE_INFINITY })).toContain(name);
  });
});

describe("left out", () => {
  test("nested repositories are named once, as folders", () => {
    const files = {
      nested: [
        { path: "sub", head: null },
        { path: "vendor/lib/", head: "a".repeat(40) },
      ],
      skipped: [
        { path: "sub", reason: "nested_repository", bytes: null },
        { path: "big.bin", reason: "too_large", bytes: 31_000_000 },
      ],
    } as const;
    expect(skippedPaths(files)).toEqual([
      { path: "sub/", why: "a git repository of its own" },
      { path: "vendor/lib/", why: "a git repository of its own" },
      { path: "big.bin", why: "too large, 31 MB" },
    ]);
    expect(skippedPaths(null)).toEqual([]);
  });

  test("a long path is cut, the reason is not", () => {
    const line = skippedLine({ path: `${"deep/".repeat(30)}x`, why: "a git repository of its own" }, "not saved", PAGE);
    expect(line).toMatch(/^ {2}! deep\/.*… not saved: a git repository of its own\n$/);
    expect(line.length - 1).toBeLessThanOrEqual(80);
  });
});

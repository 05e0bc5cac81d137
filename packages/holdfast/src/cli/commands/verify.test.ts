import { expect, test } from "vitest";
import type { Problem } from "@holdfast/core/store";
import { PAGE } from "@holdfast/test-support/sample-run";
import { repairText, verifyText } from "./verify.ts";

const summary = { kind: "summary", ok: true, runs: 1, entries: 31, checkpoints: 7, chunks: 0, problems: 0 } as const;
const problem: Problem = {
  code: "STORE_CORRUPT",
  run: "fix-login",
  entry: 12,
  sequence: 4,
  what: "the state of the checkpoint does not match its digest, and this is a long enough sentence to be wrapped",
  trustedTo: 11,
  newestIntact: 7,
};

test("intact", () => {
  expect(verifyText({ ok: true, summary, problems: [], absent: [], listed: null }, PAGE)).toMatchInlineSnapshot(`
    "Intact: 1 run, 31 journal entries, 7 checkpoints.
    "
  `);
});

test("runs that were removed are counted separately", () => {
  const text = verifyText({ ok: true, summary: { ...summary, runs: 16 }, problems: [], absent: [], listed: 5 }, PAGE);
  expect(text).toMatch(/^Intact: 5 runs, 11 removed runs, 31 journal entries/);
});

test("damaged: damage, location, last trusted entry and next command", () => {
  const problems = [
    problem,
    {
      ...problem,
      code: "STORE_CUT",
      run: null,
      sequence: null,
      entry: null,
      trustedTo: null,
      newestIntact: null,
    } as const,
  ];
  const text = verifyText(
    { ok: false, summary: { ...summary, ok: false, problems: 2 }, problems, absent: [], listed: null },
    PAGE,
  );
  const none = { repaired: [], problems, act: false };
  expect(text + repairText({ ...none, asked: false })).toMatchInlineSnapshot(`
    "Damaged: 2 problems in 1 run, 31 journal entries, 7 checkpoints.

      fix-login@4
        STORE_CORRUPT (entry 12): the state of the checkpoint does not match its
        digest, and this is a long enough sentence to be wrapped
        journal valid up to entry 11; newest intact checkpoint fix-login@7

      store
        STORE_CUT: the state of the checkpoint does not match its digest, and this
        is a long enough sentence to be wrapped
    "
  `);
  expect(repairText({ ...none, asked: true })).toBe("\nWould quarantine or pin again: fix-login@4\n");
  const repaired = [{ run: "fix-login", quarantined: [4], pinned: [], newestIntact: 7 }];
  expect(repairText({ repaired, problems, asked: true, act: true })).toBe(
    "\nQuarantined fix-login@4; newest intact: fix-login@7\n",
  );
});

test("files that only another machine has are no damage: one line for each run, with the command that gets them", () => {
  const absent = [
    { run: "issue-1", checkpoints: 12 },
    { run: "issue-2", checkpoints: 1 },
  ];
  expect(verifyText({ ok: true, summary, problems: [], absent, listed: 1 }, PAGE)).toMatchInlineSnapshot(`
    "Intact: 1 run, 31 journal entries, 7 checkpoints.

    The files of 12 checkpoints of issue-1 are not here:
    \`holdfast store fetch issue-1\`
    The files of 1 checkpoint of issue-2 are not here:
    \`holdfast store fetch issue-2\`
    "
  `);
});

import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { damageCheckpoints } from "@holdfast/test-support/edit-store";
import {
  type RollbackCase,
  type RollbackRound,
  runRollbackCase,
  startTestRunInWorktree,
} from "@holdfast/test-support/core/toy-worktree";
import { ID, begin, define } from "@holdfast/test-support/core/work-bench";
import { findRollback } from "./find-rollback.ts";
import type { RollbackChoice } from "./rollback.ts";

/** Ways in which runs fail, each executed by the real engine, and the checkpoint that a careful engineer would choose, with the reason. */

const app =
  (text: string): NonNullable<RollbackRound["edit"]> =>
  ({ file }) =>
    void file("app.txt", `${text}\n`);

function whyNot(choice: RollbackChoice, sequence: number): string {
  const found = choice.rejected.find((one) => one.sequence === sequence);
  return found === undefined ? "" : `${found.kind}: ${found.why}`;
}

/** Every checkpoint is accounted for: chosen, or rejected with a reason. */
async function expectComplete(story: Pick<RollbackCase, "store">, choice: RollbackChoice): Promise<void> {
  const all = (await story.store.listCheckpoints({ run: ID })).map(({ sequence }) => sequence);
  const named = choice.rejected.map(({ sequence }) => sequence);
  expect([...named, ...(choice.chosen === null ? [] : [choice.chosen])].toSorted((a, b) => b - a)).toEqual(all);
  expect(choice.rejected.every(({ why }) => why.length > 10)).toBe(true);
}

describe("the checkpoint that a careful engineer would choose", () => {
  test("a refactor that lowered the score: the files of the best review, as the run left them", async () => {
    const story = await runRollbackCase([
      { edit: app("first"), score: 70 },
      { edit: app("good"), score: 85 },
      { edit: app("refactored"), score: 60 },
      { edit: app("refactored more"), score: 55, test: "fail" },
    ]);
    const choice = await story.choose();
    expect(choice).toMatchObject({
      kind: "back",
      chosen: story.after(2),
      cause: { kind: "regression", why: expect.stringContaining("The score fell from 85") },
    });
    expect(whyNot(choice, story.after(3))).toMatch(/^known_bad: its files scored 60/);
    expect(whyNot(choice, story.after(1))).toMatch(/^known_bad: its files scored 70/);
    await expectComplete(story, choice);
    await story.restore(choice);
    expect(story.app()).toBe("good\n");
  });

  test("a broken migration, applied to a database: nowhere, because old files do not fit the new tables", async () => {
    const story = await runRollbackCase([
      { edit: app("tables 1") },
      { edit: app("broken tables 2"), effect: { kind: "migration", target: "staging", rollback: "refuse" } },
    ]);
    const choice = await story.choose();
    expect(choice).toMatchObject({ kind: "none", effects: [{ kind: "migration", target: "staging" }] });
    expect(whyNot(choice, story.after(1))).toMatch(/^effect: migration on staging came after it: it cannot be undone/);
    await expectComplete(story, choice);
    // The user has rolled the database back and confirms it.
    expect(await story.choose({ pastEffects: true })).toMatchObject({
      kind: "back",
      chosen: story.after(1),
      accepted: [{ kind: "migration" }],
    });
  });

  test("a migration that worked, and a break after it: between the two, never behind the migration", async () => {
    const story = await runRollbackCase([
      { edit: app("tables 1") },
      { edit: app("tables 2"), effect: { kind: "migration", target: "staging", rollback: "refuse" } },
      { edit: app("broken query") },
    ]);
    const choice = await story.choose();
    expect(choice).toMatchObject({ kind: "back", chosen: story.after(2), accepted: [] });
    expect(whyNot(choice, story.after(1))).toMatch(/^effect: /);
    await story.restore(choice);
    expect(story.app()).toBe("tables 2\n");
  });

  test("the newest checkpoint is corrupt: the newest whole one, with nothing else to blame", async () => {
    const story = await runRollbackCase([{ edit: app("one") }, { edit: app("two") }]);
    const newest = story.after(2) + 1;
    expect((await story.store.latest(ID))?.sequence).toBe(newest);
    damage(story, newest);
    const choice = await story.choose();
    expect(choice).toMatchObject({ kind: "back", chosen: newest - 1 });
    expect(whyNot(choice, newest)).toMatch(/^damaged: /);
    await expectComplete(story, choice);
  });

  test("all checkpoints of the last good files were quarantined: older files, and never some that may hold the cause", async () => {
    const story = await runRollbackCase([{ edit: app("one") }, { edit: app("two") }, { edit: app("broken") }]);
    const sequences = [story.after(2), story.after(2) - 1, story.after(2) - 2];
    await story.store.quarantine({ run: ID, sequences, reason: "a bad disk" });
    const choice = await story.choose();
    expect(choice).toMatchObject({ kind: "back", chosen: story.after(1) });
    expect(whyNot(choice, story.after(2))).toMatch(/^quarantined: /);
    await story.restore(choice);
    expect(story.app()).toBe("one\n");
  });

  test("the git objects of the last good files are gone: older files, and the loss is named", async () => {
    const story = await runRollbackCase([{ edit: app("one") }, { edit: app("two") }, { edit: app("broken") }]);
    removeObject(story, "two\n");
    const choice = await story.choose();
    expect(choice).toMatchObject({ kind: "back", chosen: story.after(1) });
    expect(whyNot(choice, story.after(2))).toBe("damaged: its git objects are not in this repository");
    await story.restore(choice);
    expect(story.app()).toBe("one\n");
  });

  test("a pull request opened and a push in between: the choice may be before them, and they are adopted later", async () => {
    const story = await runRollbackCase([
      { edit: app("good") },
      { edit: app("broken"), effect: { kind: "pull_request", target: "shop#7" } },
      { edit: app("broken still"), effect: { kind: "push", target: "origin/x" } },
    ]);
    const choice = await story.choose();
    expect(choice).toMatchObject({
      kind: "back",
      chosen: story.after(1),
      adopted: [{ kind: "pull_request" }, { kind: "push" }],
      accepted: [],
    });
    await story.restore(choice);
    expect(story.app()).toBe("good\n");
    const effects = await story.store.listEffects(ID);
    expect(effects.map(({ kind, state }) => [kind, state.kind])).toEqual([
      ["pull_request", "done"],
      ["push", "done"],
    ]);
  });

  test("an effect of unknown outcome: the choice is not before it until the outcome is known", async () => {
    const story = await runRollbackCase([
      { edit: app("good") },
      { edit: app("broken"), test: "fail" },
      { edit: app("broken more"), effect: { kind: "push", target: "origin/x", outcome: "unclear" } },
    ]);
    const choice = await story.choose();
    // The run waits for an answer, which other files would not change.
    expect(choice).toMatchObject({ kind: "stay", cause: { kind: "outside" } });
    expect(whyNot(choice, story.after(1))).toMatch(
      /^effect: push on origin\/x came after it: it is unknown whether it happened/,
    );
  });

  test("a flaky test: nothing is rolled back, because the same files also passed", async () => {
    const story = await runRollbackCase([
      { edit: app("work") },
      { test: "fail" },
      { test: "pass" },
      { edit: app("more work"), test: "fail" },
      { test: "pass" },
      { test: "fail" },
    ]);
    const choice = await story.choose();
    expect(choice.cause).toMatchObject({ kind: "flaky", why: expect.stringContaining("on the same files") });
    await story.restore(choice);
    expect(story.app()).toBe("more work\n");
  });

  test("an overloaded provider: an external cause, so nothing is rolled back", async () => {
    const story = await runRollbackCase([{ edit: app("good") }, { edit: app("broken for now") }, { overloaded: true }]);
    const choice = await story.choose();
    expect(choice).toMatchObject({ kind: "stay", cause: { kind: "outside" } });
    expect(choice.cause.why).toMatch(/overload/i);
    expect(choice.chosen).toBeGreaterThan(story.after(2));
  });

  test("the agent deleted files, and nothing was tested before: from before the deletion", async () => {
    const names = Array.from({ length: 8 }, (_, at) => `module-${at}.txt`);
    const story = await runRollbackCase([
      {
        edit: (toy) => {
          app("work")(toy);
          for (const name of names) toy.file(name, "text\n");
        },
        test: "fail",
      },
      {
        edit: ({ workspace }) => {
          for (const name of names.slice(1)) rmSync(join(workspace.root, name));
        },
        test: "fail",
      },
      { edit: app("repaired a little"), test: "fail" },
    ]);
    const choice = await story.choose();
    expect(choice).toMatchObject({
      kind: "back",
      chosen: story.after(1),
      cause: { kind: "deletion", why: expect.stringContaining("7 files were removed") },
    });
    await story.restore(choice);
    expect(names.every((name) => story.file(name))).toBe(true);
  });

  test("a gate that passed and fails since a user edited a file: before the edit, which stays in a checkpoint", async () => {
    const story = await runRollbackCase([
      { edit: app("good") },
      {
        meddle: ({ workspace }) => writeFileSync(join(workspace.root, "app.txt"), "broken by hand\n"),
      },
    ]);
    const choice = await story.choose();
    // Taken by the round itself, before the edit: the same files that passed.
    expect(choice).toMatchObject({ kind: "back", chosen: story.after(1) + 1, cause: { kind: "regression" } });
    await story.restore(choice);
    expect(story.app()).toBe("good\n");
    const saved = await story.store.getCheckpoint({ run: ID, sequence: story.after(2) });
    const { files } = await story.workspaces.diff({
      from: saved.tree ?? "",
      to: (await story.store.latest(ID))?.tree ?? "",
      format: "names",
    });
    expect(files.map(({ path }) => path)).toEqual(["app.txt"]);
  });

  test("back and forth between two states that both fail: from before the loop", async () => {
    const [one, two] = [app("broken this way"), app("broken that way")];
    const story = await runRollbackCase([
      { edit: app("plan"), test: "fail" },
      { edit: one },
      { edit: two },
      { edit: one },
      { edit: two },
      { edit: one },
    ]);
    const choice = await story.choose();
    expect(choice).toMatchObject({ kind: "back", chosen: story.after(1), cause: { kind: "oscillation" } });
    expect(whyNot(choice, story.after(2))).toMatch(/^known_bad: its files are one of the two states/);
    await story.restore(choice);
    expect(story.app()).toBe("plan\n");
  });

  test("back and forth, and one of the two passes: that one", async () => {
    const [good, bad] = [app("good"), app("broken")];
    const story = await runRollbackCase([{ edit: good }, { edit: bad }, { edit: good }, { edit: bad }]);
    expect(await story.choose()).toMatchObject({
      kind: "back",
      chosen: story.after(3),
      cause: { kind: "regression" },
    });
  });

  test("a checkpoint taken in the middle of a step: the one from before the step", async () => {
    const { adapters, workspace, file, crash, store } = await startTestRunInWorktree();
    const workflow = define({
      work: async ({ step, checkpoint }) => {
        await step("first", () => file("app.txt", "whole\n"), { changesFiles: true });
        await step(
          "second",
          async () => {
            file("app.txt", "half\n");
            await checkpoint({ trigger: "timer" });
            return null;
          },
          { changesFiles: true },
        );
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(adapters, workflow, workspace);
    // 1 and 2: the first step; 3: the second begins; 4: the checkpoint in its middle; 5: its end.
    expect(await crash(workflow, 5, "before")).toBe("died");
    const choice = await findRollback(adapters, { run: ID, pastEffects: false });
    expect((await store.latest(ID))?.trigger).toBe("timer");
    expect(choice).toMatchObject({ kind: "back", chosen: 2 });
    expect(whyNot(choice, 3)).toBe("half_step: it was taken in the middle of second");
  });

  test("after a rollback, it stays, whatever comes before", async () => {
    const story = await runRollbackCase([{ edit: app("good") }, { edit: app("broken") }]);
    const first = await story.choose();
    await story.restore(first);
    const again = await story.choose();
    expect(again.chosen).toBe((await story.store.latest(ID))?.sequence);
    expect(whyNot(again, story.after(2))).toMatch(/^left_behind: /);
    expect(whyNot(again, story.after(1))).toMatch(/^older: checkpoint \d+ has the same files/);
  });
});

/** Deletes an object, as another tool's gc or a lost disk would. */
function removeObject({ tree, workspaces }: RollbackCase, text: string): void {
  writeFileSync(join(tree.root, ".git-object-of"), text);
  const id = tree.git("hash-object", ".git-object-of").trim();
  rmSync(join(tree.root, ".git-object-of"));
  rmSync(join(workspaces.commonDir, "objects", id.slice(0, 2), id.slice(2)));
}

/** A bit that flipped on the disk. */
function damage({ store }: Pick<RollbackCase, "store">, sequence: number): void {
  expect(damageCheckpoints(store.location, [sequence])).toBe(1);
}

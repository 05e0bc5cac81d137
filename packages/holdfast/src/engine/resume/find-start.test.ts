import { readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { emptyPlanes } from "../../core/checkpoint/checkpoint.ts";
import { defaultFindingPolicy } from "../../core/resume/finding.ts";
import { RUN, startResumeScene } from "../../testing/scenes/resume-scene.ts";
import type { ResumeScene } from "../../testing/scenes/resume-scene.ts";
import type { Store } from "../../ports/store.ts";
import { openSqliteStore } from "../../stores/sqlite/open.ts";
import { systemClock } from "../../system/clock.ts";
import { findRunFor } from "./find-run.ts";
import { findStart } from "./find-start.ts";
import { planTakeUp } from "./resume-run.ts";

const directoryOf = (scene: ResumeScene): string => scene.repo.path(".git/holdfast");

/** A store on disk with a run of three checkpoints, closed. */
async function saveOnDisk(scene: ResumeScene): Promise<string> {
  const directory = directoryOf(scene);
  const store = await openSqliteStore({ directory, create: true, clock: systemClock });
  await store.createRun({ id: RUN, workflow: "impl", work: { kind: "issue", number: 42 } });
  const lease = await store.takeLease({ run: RUN, label: "test" });
  for (const round of [1, 2, 3]) {
    // So long that each has a row of the log to itself, which can be damaged alone.
    const planes = { ...emptyPlanes(), context: { values: { text: `round ${round} `.repeat(2000) }, tokens: {} } };
    await store.commit({ lease, checkpoint: { trigger: "stage", planes } });
  }
  await store.close();
  return directory;
}

async function reopen(directory: string): Promise<Store> {
  const store = await openSqliteStore({ directory, create: true, clock: systemClock });
  onTestFinished(async () => store.close());
  return store;
}

describe("silent fresh start: never", () => {
  const damages: readonly (readonly [string, (directory: string) => void])[] = [
    [
      "the database is gone",
      (directory) =>
        readdirSync(directory)
          .filter((name) => name.startsWith("store.db"))
          .forEach((name) => rmSync(join(directory, name))),
    ],
    ["the database is empty", (directory) => truncateSync(join(directory, "store.db"))],
    ["the database is no database", (directory) => writeFileSync(join(directory, "store.db"), "garbage ".repeat(1000))],
    [
      "the marker is of another version",
      (directory) => {
        const path = join(directory, "store.json");
        const marker: unknown = JSON.parse(readFileSync(path, "utf8"));
        writeFileSync(path, JSON.stringify({ ...(marker as object), format: 999 }));
      },
    ],
  ];
  test.each(damages)("%s: loud", async (_name, damage) => {
    const scene = await startResumeScene();
    const directory = await saveOnDisk(scene);
    damage(directory);
    await expect(openSqliteStore({ directory, create: true, clock: systemClock })).rejects.toMatchObject({
      code: expect.stringMatching(/^STORE_(MISSING|CORRUPT|CUT|TOO_NEW)$/),
    });
  });

  test("every checkpoint is damaged: STORE_CORRUPT, and no plan that would begin anew", async () => {
    const scene = await startResumeScene();
    const directory = await saveOnDisk(scene);
    damageCheckpoints(directory, [1, 2, 3]);
    const store = await reopen(directory);
    const parts = { ...scene.parts, store };
    await expect(findStart({ parts, run: RUN })).rejects.toMatchObject({ code: "STORE_CORRUPT" });
    const { current } = scene;
    const params = { parts, run: RUN, current, policy: defaultFindingPolicy, answers: {}, force: false };
    await expect(planTakeUp(params)).rejects.toMatchObject({ code: "STORE_CORRUPT" });
    expect(await findRunFor({ parts, issue: 42 })).toMatchObject({ kind: "one" });
  });

  test("the newest ones are damaged: the newest whole one, and each of the others named", async () => {
    const scene = await startResumeScene();
    const directory = await saveOnDisk(scene);
    damageCheckpoints(directory, [3]);
    const start = await findStart({ parts: { ...scene.parts, store: await reopen(directory) }, run: RUN });
    expect(start).toMatchObject({
      kind: "found",
      from: { kind: "newest_intact", sequence: 2 },
      checkpoint: { sequence: 2 },
      findings: [{ kind: "store_damaged", expected: { sequence: 3 } }],
    });
  });

  test("a run without checkpoints says that there is nothing to resume", async () => {
    const scene = await startResumeScene();
    await scene.store.createRun({ id: "empty", workflow: "impl", work: { kind: "issue", number: 5 } });
    expect(await findStart({ parts: scene.parts, run: "empty" })).toEqual({ kind: "none" });
  });

  test("a run that is not there is not made up", async () => {
    const scene = await startResumeScene();
    const { parts, current } = scene;
    const params = { parts, run: "no-such", current, policy: defaultFindingPolicy, answers: {}, force: false };
    await expect(planTakeUp(params)).rejects.toMatchObject({ code: "RUN_NOT_FOUND" });
  });
});

describe("the run of an issue", () => {
  test("exactly: issue 4 is not issue 42; ended ones are told, several are a question", async () => {
    const scene = await startResumeScene();
    const { parts, store } = scene;
    expect(await findRunFor({ parts, issue: 42 })).toMatchObject({ kind: "one", run: { id: RUN } });
    expect(await findRunFor({ parts, issue: 4 })).toEqual({ kind: "none", ended: [] });
    await store.createRun({ id: "issue-4-42", workflow: "impl", work: { kind: "issue", number: 4 } });
    expect(await findRunFor({ parts, issue: 42 })).toMatchObject({ kind: "one", run: { id: RUN } });
    expect(await findRunFor({ parts, issue: 42, workflow: "other" })).toEqual({ kind: "none", ended: [] });
    await store.createRun({ id: "again", workflow: "impl", work: { kind: "issue", number: 42 } });
    const lease = await store.takeLease({ run: "again", label: "test" });
    await store.commit({
      lease,
      checkpoint: { trigger: "stage", planes: emptyPlanes({ workflow: "impl", stage: "setup" }) },
    });
    expect(await findRunFor({ parts, issue: 42 })).toMatchObject({ kind: "several", runs: [{}, {}] });
    await scene.append({ kind: "run.ended", body: { outcome: "done" } });
    expect(await findRunFor({ parts, issue: 42 })).toMatchObject({ kind: "one", run: { id: "again" } });
  });

  test("died before its first checkpoint: nothing that could go on, and nothing that has ended", async () => {
    const { parts, store } = await startResumeScene();
    await store.createRun({ id: "born", workflow: "impl", work: { kind: "issue", number: 7 } });
    expect(await findRunFor({ parts, issue: 7 })).toEqual({ kind: "none", ended: [] });
  });
});

/** Flips a byte in the log rows that hold these checkpoints. */
function damageCheckpoints(directory: string, sequences: readonly number[]): void {
  const db = new DatabaseSync(join(directory, "store.db"));
  for (const sequence of sequences) {
    const changed = db.prepare("UPDATE log SET body = zeroblob(length(body)) WHERE sequence = ?").run(sequence);
    expect(changed.changes).toBe(1);
  }
  db.close();
}

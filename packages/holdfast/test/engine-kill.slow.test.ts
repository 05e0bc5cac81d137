import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createExternalSystem, executeUntilKilled } from "@holdfast/test-support/core/kill-run";
import { ID } from "@holdfast/test-support/core/work-bench";
import { createTestRepository, readWorktree } from "@holdfast/test-support/git/repository";
import { openSqliteStore } from "@holdfast/core/store-sql/open";
import { openGitWorkspaces } from "@holdfast/git/workspaces";
import { chanceOf, sample, suiteSeed } from "./faults/harness/seed.ts";

const CHILD = join(import.meta.dirname, "../../test-support/src/store-processes/conduct.ts");

/** A place for one run. */
function createPlace() {
  const base = mkdtempSync(join(tmpdir(), "holdfast-kill-"));
  onTestFinished(() => rmSync(base, { recursive: true, force: true }));
  const repository = createTestRepository();
  onTestFinished(() => repository.dispose());
  repository.write("a.txt", "one\n");
  repository.git("add", "-A");
  repository.git("commit", "-qm", "first");
  const directory = join(base, "store");
  const place = { directory, repository: repository.root };
  return {
    ...place,
    outside: createExternalSystem(join(directory, "outside.log")),
    /** In this process, to the end. */
    carry: () => executeUntilKilled({ ...place, at: 0, moment: "before", die: () => undefined }),
    /** Runs in a process that is killed; returns the signal, or the error output. */
    kill: (at: number, moment: string) =>
      new Promise<string>((resolve) => {
        const args = ["--no-warnings", CHILD, directory, repository.root, String(at), moment];
        execFile(process.execPath, args, (error, _out, complaint) =>
          resolve(error === null ? "ended" : (error.signal ?? complaint)),
        );
      }),
  };
}

/** Files, journal and effects as they must be in the end, however the run came there. */
async function readEnd(place: ReturnType<typeof createPlace>) {
  await using held = {
    store: await openSqliteStore({ directory: place.directory, create: false }),
    workspaces: await openGitWorkspaces(place.repository),
    async [Symbol.asyncDispose]() {
      await held.store.close();
      await held.workspaces.close();
    },
  };
  const { store, workspaces } = held;
  const latest = await store.latest(ID);
  const journal = await Array.fromAsync(store.readJournal({ run: ID }));
  const problems = await Array.fromAsync(store.verify());
  return {
    state: (await store.getRun(ID))?.state.kind,
    values: latest?.planes.context.values,
    position: { stage: latest?.stage, stageAttempt: latest?.planes.position.stageAttempt },
    files: readWorktree((await workspaces.find(ID))?.root ?? ""),
    effects: (await store.listEffects(ID)).map(({ key, state }) => `${key} ${state.kind}`),
    finished: journal.flatMap(({ kind, body }) =>
      kind === "step.finished" ? [`${String(body["stageAttempt"])} ${String(body["step"])}`] : [],
    ),
    whole: problems.every((event) => event.kind !== "problem"),
  };
}

test("killed with SIGKILL before or after any commit and resumed: the same end, nothing finished run twice, effects once", async () => {
  const calm = createPlace();
  const { outcome, commits } = await calm.carry();
  expect(outcome).toMatchObject({ kind: "done" });
  expect(commits).toBeGreaterThan(10);
  const expected = await readEnd(calm);
  expect(expected).toMatchObject({ state: "done", whole: true });
  expect(new Set(expected.finished).size).toBe(expected.finished.length);

  // Before a commit, the work that it records is done already; after it, nothing else is.
  const all = Array.from({ length: commits }, (_, i) => i + 1).flatMap((at) => [
    [at, "before"] as const,
    [at, "after"] as const,
  ]);
  const seed = suiteSeed();
  const kills = sample(chanceOf(seed, "engine-kill"), all, 8);
  const check = async ([at, moment]: (typeof kills)[number]): Promise<void> => {
    const place = createPlace();
    const where = `HOLDFAST_SEED=${seed}, ${moment} commit ${at} of ${commits}`;
    expect([where, await place.kill(at, moment)]).toEqual([where, "SIGKILL"]);
    const before = await readFinished(place);
    const done = place.outside.lines().length;
    expect((await place.carry()).outcome).toMatchObject({ kind: "done" });
    const end = await readEnd(place);
    expect({ ...end, finished: end.finished.toSorted() }).toEqual({
      ...expected,
      finished: expected.finished.toSorted(),
    });
    const lines = place.outside.lines();
    const again = lines.slice(done).filter((line) => before.includes(line));
    expect([where, again]).toEqual([where, []]);
    expect(lines.filter((line) => line.startsWith("effect"))).toEqual(["effect 1"]);
  };
  // Two at once: that is what the machine has.
  const left = kills.values();
  await Promise.all(
    [left, left].map(async (queue) => {
      for (const kill of queue) await check(kill);
    }),
  );
});

async function readFinished(place: ReturnType<typeof createPlace>): Promise<readonly string[]> {
  const store = await openSqliteStore({ directory: place.directory, create: false });
  try {
    const journal = await Array.fromAsync(store.readJournal({ run: ID }));
    return journal.flatMap(({ kind, body }) =>
      kind === "step.finished" ? [`step ${String(body["stageAttempt"])} ${String(body["step"])}`] : [],
    );
  } finally {
    await store.close();
  }
}

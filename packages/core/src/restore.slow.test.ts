import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { damageCheckpoints } from "@holdfast/test-support/edit-store";
import { HoldfastError } from "@holdfast/platform/error";
import { type RollbackCase, runRollbackCase } from "@holdfast/test-support/core/toy-worktree";
import { ID, createBenchAgent } from "@holdfast/test-support/core/work-bench";
import type { CoreAdapters } from "./adapters.ts";
import { type RestoreStep, stepsOf } from "./restore.ts";
import { RunHandle } from "./run-handle.ts";
import type { Workspace } from "./workspace.ts";

const tell = (): Promise<RollbackCase> =>
  runRollbackCase([
    { edit: ({ file }) => void file("app.txt", "one\n") },
    { edit: ({ file }) => void file("app.txt", "two\n") },
  ]);

async function handleOf(story: RollbackCase, adapters: Partial<CoreAdapters> = {}): Promise<RunHandle> {
  const run = await story.store.getRun(ID);
  if (run === undefined) throw new Error("no run");
  return new RunHandle({ ...story.adapters, ...adapters }, run);
}

const outcomes = (steps: readonly RestoreStep[]): string =>
  steps.map(({ step, outcome }) => `${step}:${outcome}`).join(" ");

/** Restores, expects a failure, and expects that neither files nor position changed. */
async function fails(
  story: RollbackCase,
  sequence: number,
  adapters: Partial<CoreAdapters> = {},
): Promise<HoldfastError> {
  const files = story.app();
  const before = await story.store.latest(ID);
  await using handle = await handleOf(story, adapters);
  const error = await handle.restore({ sequence }).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof HoldfastError)) throw new Error(`not refused: ${String(error)}`);
  expect(story.app()).toBe(files);
  const after = await story.store.latest(ID);
  expect(after?.planes.position).toEqual(before?.planes.position);
  expect(after?.planes.context).toEqual(before?.planes.context);
  expect(after?.tree).toBe(before?.tree);
  expect((await story.store.getRun(ID))?.unfinishedRestore).toBeNull();
  return error;
}

const failedAt = (error: HoldfastError): string => outcomes(stepsOf(error.data));

test("every step is told, in the order of the sequence", async () => {
  const story = await tell();
  await using handle = await handleOf(story);
  const report = await handle.restore({ sequence: story.after(1) });
  expect(outcomes(report.steps)).toBe(
    "integrity:done files:done values:done conversation:skipped verify:done resume:done",
  );
  expect(report.steps.map(({ text }) => text).join("\n")).toBe(
    [
      `${ID}@4 is whole`,
      `1 written, 0 removed; what was there is ${report.undo?.id}`,
      `position and values are those of ${ID}@4; what was spent stays spent`,
      "there is none in it",
      `${report.checkpoint.id} was read back, and the files are as it has them`,
      "the run is at work",
    ].join("\n"),
  );
  expect(story.app()).toBe("one\n");
});

test("single paths: neither values nor conversation, and the run stands where it stood", async () => {
  const story = await tell();
  await using handle = await handleOf(story);
  const { steps } = await handle.restore({ sequence: story.after(1), paths: ["app.txt"] });
  expect(outcomes(steps)).toBe("integrity:done files:done values:skipped conversation:skipped verify:done resume:done");
});

describe("a step that fails stops it, and nothing was changed", () => {
  test("integrity: a damaged chunk", async () => {
    const story = await tell();
    const sequence = await damageOne(story);
    const error = await fails(story, sequence);
    expect(error.code).toBe("STORE_CORRUPT");
    expect(failedAt(error)).toBe(
      "integrity:failed files:not_reached values:not_reached conversation:not_reached verify:not_reached resume:not_reached",
    );
  });

  test("integrity: git objects that are gone", async () => {
    // No other file has these bytes: a snapshot writes a missing object again from any file that holds them.
    const story = await runRollbackCase([
      { edit: ({ file }) => void file("app.txt", "only in this checkpoint\n") },
      { edit: ({ file }) => void file("app.txt", "two\n") },
    ]);
    const id = story.tree.git("rev-parse", `refs/holdfast/${ID}/${story.after(1)}:app.txt`).trim();
    rmSync(join(story.workspaces.commonDir, "objects", id.slice(0, 2), id.slice(2)));
    const error = await fails(story, story.after(1));
    expect(error.code).toBe("TREE_MISSING");
    expect(failedAt(error)).toMatch(/^integrity:failed files:not_reached /);
  });

  test("files: an ignored file stands in the way", async () => {
    const story = await runRollbackCase([
      {
        edit: ({ file }) => {
          file("app.txt", "one\n");
          file("out.log", "in the checkpoint\n");
        },
      },
      {
        edit: ({ file, workspace }) => {
          rmSync(join(workspace.root, "out.log"));
          file(".gitignore", ".tmp/\nout.log\n");
          file("app.txt", "two\n");
        },
      },
    ]);
    story.file("out.log", "of nobody's checkpoint\n");
    const error = await fails(story, story.after(1));
    expect(error.code).toBe("RESTORE_REFUSED");
    expect(failedAt(error)).toMatch(/^integrity:done files:failed values:not_reached /);
    expect(readFileSync(join(story.workspace.root, "out.log"), "utf8")).toBe("of nobody's checkpoint\n");
    expect((await story.store.listCheckpoints({ run: ID, limit: 1 }))[0]?.trigger).not.toBe("before_restore");
  });

  test("files: a git operation is under way", async () => {
    const story = await tell();
    const head = story.tree.git("rev-parse", "HEAD").trim();
    writeFileSync(story.tree.git("rev-parse", "--git-path", "MERGE_HEAD").trim(), `${head}\n`);
    const error = await fails(story, story.after(1));
    expect(error.code).toBe("WORKSPACE_BUSY");
    expect(failedAt(error)).toMatch(/files:failed values:not_reached /);
  });

  test("verify: somebody writes over what was restored; it is put back, and what was written is kept", async () => {
    const story = await tell();
    const meddling: Workspace = {
      ...bound(story.workspace),
      applyRestore: async (plan) => {
        const done = await story.workspace.applyRestore(plan);
        if (readFileSync(join(plan.root, "app.txt"), "utf8") === "one\n") story.file("app.txt", "theirs\n");
        story.file("other.txt", "theirs too\n");
        return done;
      },
    };
    const workspaces = { ...story.workspaces, find: () => Promise.resolve(meddling) };
    await using handle = await handleOf(story, { workspaces });
    const error: unknown = await handle.restore({ sequence: story.after(1) }).catch((thrown: unknown) => thrown);
    if (!(error instanceof HoldfastError)) throw new Error("it was not refused");
    expect(error).toMatchObject({ code: "WORKSPACE_BUSY", hint: expect.stringContaining("as it was before") });
    expect(failedAt(error)).toBe(
      "integrity:done files:done values:not_reached conversation:not_reached verify:failed resume:not_reached",
    );
    expect(story.app()).toBe("two\n");
    expect(story.file("other.txt")).toBe(true);
    expect((await story.store.getRun(ID))?.unfinishedRestore).toBeNull();
    const kept = story.tree.git("for-each-ref", "--format=%(refname)", "refs/holdfast").split("\n");
    const trees = kept.filter((ref) => ref !== "" && !ref.endsWith("-index"));
    const theirs = blobOf(story, "theirs\n");
    expect(trees.some((ref) => story.tree.git("ls-tree", ref, "app.txt").includes(theirs))).toBe(true);
    // The failed restore does not count as a rollback.
    expect(await story.choose()).toMatchObject({ kind: "stay" });
  });

  test("values: the store cannot take them; the files go back", async () => {
    const story = await tell();
    const full = new HoldfastError({ code: "DISK_FULL", message: "The disk is full" });
    const store = new Proxy(story.store, {
      get: (real, name) =>
        name === "commit"
          ? (commit: Parameters<typeof real.commit>[0]) =>
              commit.checkpoint?.trigger === "restore" ? Promise.reject(full) : real.commit(commit)
          : bindTo(real, Reflect.get(real, name)),
    });
    const error = await fails(story, story.after(1), { store });
    expect(error).toMatchObject({ code: "DISK_FULL" });
    expect(failedAt(error)).toMatch(/files:done values:failed conversation:not_reached verify:not_reached /);
  });
});

describe("a conversation that cannot be gone back to is handed over, aloud", () => {
  const kept = {
    agent: "toy",
    session: "s-1",
    transcript: { digest: "d", bytes: 2, text: "hi" },
    lastMessage: "m-1",
  };
  const sessions = { read: () => Promise.resolve(null), write: () => Promise.resolve() };
  const cases = [
    ["an agent that keeps no record", kept, {}, null, "handed_over", "cannot forget what came after"],
    ["no session in the checkpoint", { ...kept, session: null }, {}, null, "handed_over", "holds no session"],
    ["an agent whose record can be put back", kept, {}, sessions, "done", "puts session s-1 of toy back"],
    ["an agent that can fork", kept, { forkAtMessage: true }, null, "done", "continues from message m-1"],
  ] as const;
  test.each(cases)("%s", async (_name, conversation, capabilities, record, outcome, text) => {
    const story = await tell();
    const agent = createBenchAgent("toy", () => ({}), capabilities, record as never);
    await using handle = await handleOf(story, { sessionsOf: () => Promise.resolve(agent) });
    const { sequence } = await handle.save({ planes: { conversation } });
    await handle.save({ values: { more: 1 } });
    const { steps } = await handle.restore({ sequence });
    const told = steps.find(({ step }) => step === "conversation");
    expect(told).toMatchObject({ outcome, text: expect.stringContaining(text) });
  });
});

/** Methods of a class need their object, so each call goes through it. */
function bound(workspace: Workspace): Workspace {
  return {
    root: workspace.root,
    snapshot: (params) => workspace.snapshot(params),
    look: (params) => workspace.look(params),
    currentFiles: (params) => workspace.currentFiles(params),
    planRestore: (params) => workspace.planRestore(params),
    applyRestore: (plan) => workspace.applyRestore(plan),
    switchTo: (params) => workspace.switchTo(params),
  };
}

function bindTo(real: object, value: unknown): unknown {
  return typeof value === "function" ? value.bind(real) : value;
}

function blobOf(story: RollbackCase, text: string): string {
  writeFileSync(join(story.tree.root, ".tmp-blob"), text);
  const id = story.tree.git("hash-object", ".tmp-blob").trim();
  rmSync(join(story.tree.root, ".tmp-blob"));
  return id;
}

/** Damages the stored bytes of a checkpoint that is not the newest; returns its sequence. */
async function damageOne(story: RollbackCase): Promise<number> {
  await using handle = await handleOf(story);
  // The value is so long that it has a row of its own.
  const { sequence } = await handle.save({ values: { text: "long ".repeat(5000) } });
  await handle.save({ values: { text: "other ".repeat(5000) } });
  expect(damageCheckpoints(story.store.location, [sequence])).toBe(1);
  return sequence;
}

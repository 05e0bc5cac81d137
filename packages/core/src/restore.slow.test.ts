import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { damageCheckpoints } from "@holdfast/test-support/edit-store";
import { HoldfastError } from "@holdfast/platform/error";
import { ProcessKilled, dyingParts } from "@holdfast/test-support/core/kill-run";
import {
  type RollbackCase,
  type TestWorktree,
  runRollbackCase,
  startTestRunInWorktree,
} from "@holdfast/test-support/core/toy-worktree";
import {
  ID,
  SQLITE,
  type TestRun,
  begin,
  createBenchAgent,
  define,
  startTestRun,
} from "@holdfast/test-support/core/work-bench";
import type { CoreAdapters } from "./adapters.ts";
import { applyGc, planGc } from "./gc.ts";
import { type RestoreStep, stepsOf } from "./restore.ts";
import { defaultRetention } from "./retention.ts";
import { RunHandle } from "./run-handle.ts";
import type { Store } from "./store.ts";
import { verifyRun } from "./verify.ts";
import type { Workspace } from "./workspace.ts";

const openCase = (): Promise<RollbackCase> =>
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

test("every step is reported, in order", async () => {
  const story = await openCase();
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

test("single paths: neither values nor conversation, and the position of the run stays", async () => {
  const story = await openCase();
  await using handle = await handleOf(story);
  const { steps } = await handle.restore({ sequence: story.after(1), paths: ["app.txt"] });
  expect(outcomes(steps)).toBe("integrity:done files:done values:skipped conversation:skipped verify:done resume:done");
});

describe("a failing step stops it, and nothing was changed", () => {
  test("integrity: a damaged chunk", async () => {
    const story = await openCase();
    const sequence = await damageOne(story);
    const error = await fails(story, sequence);
    expect(error.code).toBe("STORE_CORRUPT");
    expect(failedAt(error)).toBe(
      "integrity:failed files:not_reached values:not_reached conversation:not_reached verify:not_reached resume:not_reached",
    );
  });

  test("integrity: missing git objects", async () => {
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

  test("values: the answer to the last commit is lost after it was made: the restore is done", async () => {
    const story = await openCase();
    const store: Store = {
      ...story.store,
      async commit(wish) {
        const committed = await story.store.commit(wish);
        if (wish.checkpoint?.trigger === "restore")
          throw new HoldfastError({ code: "IO_FAILED", message: "no answer" });
        return committed;
      },
    };
    await using handle = await handleOf(story, { store });
    await expect(handle.restore({ sequence: story.after(1) })).rejects.toMatchObject({
      code: "IO_FAILED",
      hint: expect.stringMatching(/^The restore is done: run-1@\d+ holds it\.$/),
    });
    expect(story.app()).toBe("one\n");
    const newest = await story.store.latest(ID);
    expect([newest?.trigger, (await story.workspace.currentFiles()).tree]).toEqual(["restore", newest?.tree]);
  });

  test("files: an ignored file is in the way", async () => {
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
    story.file("out.log", "in no checkpoint\n");
    const error = await fails(story, story.after(1));
    expect(error.code).toBe("RESTORE_REFUSED");
    expect(failedAt(error)).toMatch(/^integrity:done files:failed values:not_reached /);
    expect(readFileSync(join(story.workspace.root, "out.log"), "utf8")).toBe("in no checkpoint\n");
    expect((await story.store.listCheckpoints({ run: ID, limit: 1 }))[0]?.trigger).not.toBe("before_restore");
  });

  test("files: a git operation is in progress", async () => {
    const story = await openCase();
    const head = story.tree.git("rev-parse", "HEAD").trim();
    writeFileSync(story.tree.git("rev-parse", "--git-path", "MERGE_HEAD").trim(), `${head}\n`);
    const error = await fails(story, story.after(1));
    expect(error.code).toBe("WORKSPACE_BUSY");
    expect(failedAt(error)).toMatch(/files:failed values:not_reached /);
  });

  test("verify: another process overwrites restored files; they are restored again, and its content is kept", async () => {
    const story = await openCase();
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

  test("values: the store cannot write them; the files are put back", async () => {
    const story = await openCase();
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

describe("a conversation that cannot be rewound is handed over, which is reported", () => {
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
    const story = await openCase();
    const agent = createBenchAgent("toy", () => ({}), capabilities, record as never);
    await using handle = await handleOf(story, { sessionsOf: () => Promise.resolve(agent) });
    const { sequence } = await handle.save({ planes: { conversation } });
    await handle.save({ values: { more: 1 } });
    const { steps } = await handle.restore({ sequence });
    const step = steps.find((one) => one.step === "conversation");
    expect(step).toMatchObject({ outcome, text: expect.stringContaining(text) });
  });
});

/** Methods of a class need their object, so each call goes through it. */
function bound(workspace: Workspace): Workspace {
  return {
    root: workspace.root,
    privateDirectory: workspace.privateDirectory,
    notIgnored: (paths) => workspace.notIgnored(paths),
    keepOut: (paths) => workspace.keepOut(paths),
    snapshot: (params) => workspace.snapshot(params),
    look: (params) => workspace.look(params),
    currentFiles: (params) => workspace.currentFiles(params),
    planRestore: (params) => workspace.planRestore(params),
    applyRestore: (plan) => workspace.applyRestore(plan),
    switchTo: (params) => workspace.switchTo(params),
    stage: (files) => workspace.stage(files),
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

describe("a restore of one plane", () => {
  const positionOf = async ({ store }: Pick<RollbackCase, "store">) => (await store.latest(ID))?.planes.position;

  test("files: the position stays; the named checkpoint undoes it", async () => {
    const story = await openCase();
    await using handle = await handleOf(story);
    const before = await positionOf(story);
    const report = await handle.restore({ sequence: story.after(1), only: "files" });
    expect(outcomes(report.steps)).toMatch(/files:done values:skipped conversation:skipped verify:done resume:done/);
    expect(story.app()).toBe("one\n");
    expect(await positionOf(story)).toEqual(before);
    await handle.restore({ sequence: report.undo?.sequence ?? 0 });
    expect(story.app()).toBe("two\n");
  });

  test("state: position and values go back, an edited file and the session stay; the named checkpoint undoes it", async () => {
    const story = await openCase();
    await using handle = await handleOf(story);
    const conversation = { agent: "toy", session: "s-9", transcript: null, lastMessage: null };
    await handle.save({ planes: { conversation } });
    const before = (await story.store.latest(ID))?.planes;
    story.file("app.txt", "edited\n");
    const report = await handle.restore({ sequence: story.after(1), only: "state" });
    expect(outcomes(report.steps)).toMatch(/files:skipped values:done conversation:skipped verify:done resume:done/);
    const after = (await story.store.latest(ID))?.planes;
    expect(story.app()).toBe("edited\n");
    expect(after?.context.values).toEqual({ seen: ["round"] });
    expect(after?.conversation).toEqual(conversation);
    expect(after?.position.stageAttempt.number).toBeGreaterThan(before?.position.stageAttempt.number ?? 0);
    await handle.restore({ sequence: report.undo?.sequence ?? 0 });
    expect(story.app()).toBe("edited\n");
    expect((await story.store.latest(ID))?.planes.context.values).toEqual(before?.context.values);
  });

  test("state without the worktree: gc of the older checkpoints leaves the files of the new ones", async () => {
    const story = await openCase();
    story.repository.git("worktree", "remove", "--force", story.workspace.root);
    await using handle = await handleOf(story);
    const { undo, checkpoint } = await handle.restore({ sequence: story.after(1), only: "state" });
    expect(checkpoint.tree).toBe(undo?.tree);
    const policy = { ...defaultRetention, maxPerRun: 2 };
    const { dropped } = await applyGc(story.adapters, await planGc(story.adapters, { policy }));
    expect(dropped.length).toBeGreaterThan(0);
    story.repository.git("-c", "gc.reflogExpire=now", "gc", "-q", "--prune=now");
    const found = await Array.fromAsync(verifyRun(story.adapters, {}));
    expect(found.filter(({ kind }) => kind === "problem")).toEqual([]);
  });

  test("state is refused while files of an unfinished restore are half-placed", async () => {
    const story = await openCase();
    // The third change of a whole restore is the files.
    const dying = await handleOf(story, dyingParts(story.adapters, 3).adapters);
    await expect(dying.restore({ sequence: story.after(1) })).rejects.toThrow(ProcessKilled);
    await using handle = await afterDeath(story);
    await expect(handle.restore({ sequence: story.after(1), only: "state" })).rejects.toMatchObject({
      code: "RESTORE_REFUSED",
      hint: expect.stringContaining(`holdfast restore ${ID}@${story.after(1)}`),
    });
    expect((await story.store.getRun(ID))?.unfinishedRestore).toBe(`${ID}@${story.after(1)}`);
  });

  test("conversation: an interrupted call continues its earlier session, files stay; refused once the call ended", async () => {
    const records = new Map<string, string>();
    const seen: { readonly session: string | null; readonly record: string | undefined }[] = [];
    const toy = await startTestRunInWorktree(
      (task) => {
        seen.push({ session: task.session, record: records.get("s-1") });
        if (seen.length > 2) return { text: "done", session: "s-1" };
        records.set("s-1", seen.length === 1 ? "first thought" : "first thought, wrong turn");
        task.onEvent({ kind: "session", id: "s-1" });
        toy.file("half.txt", "half\n");
        return { kind: "failed", cause: "auth", message: "signed out", session: "s-1" };
      },
      { resume: true },
      {
        read: ({ session }) => {
          const text = records.get(session);
          return Promise.resolve(text === undefined ? null : { text, lastMessage: null });
        },
        write: ({ session, text }) => Promise.resolve(void records.set(session, text)),
      },
    );
    const workflow = define({
      work: async ({ agent }) => {
        await agent({ name: "edit", role: "impl", prompt: "do it", model: null, yolo: true });
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(toy.adapters, workflow, toy.workspace);
    await toy.go(workflow);
    const sequence = (await toy.store.latest(ID))?.sequence ?? 0;
    await toy.go(workflow);
    expect(seen).toHaveLength(2);
    const run = await toy.store.getRun(ID);
    if (run === undefined) throw new Error("no run");
    {
      await using handle = new RunHandle(toy.adapters, run);
      const { steps } = await handle.restore({ sequence, only: "conversation" });
      expect(outcomes(steps)).toMatch(/files:skipped values:skipped conversation:/);
    }
    await toy.go(workflow);
    expect(seen[2]).toEqual({ session: "s-1", record: "first thought" });
    expect(toy.file("half.txt")).toBe(true);
    await using handle = new RunHandle(toy.adapters, run);
    await handle.save({ planes: { conversation: null } });
    await expect(handle.restore({ sequence, only: "conversation" })).rejects.toMatchObject({
      code: "RESTORE_REFUSED",
      message: expect.stringContaining("the call of session s-1 has ended"),
    });
  });

  test("killed at any change of a restore of the state: it is undone or done, and the same restore completes it", async () => {
    for (let call = 1, dead = true; dead; call += 1) {
      const toy = await startTestRun(SQLITE, onTestFinished);
      await begin(toy.adapters, define({ work: async ({ wait }) => await wait({ for: "you", reason: "Look" }) }));
      {
        await using handle = await afterDeath(toy);
        await handle.save({ values: { seen: ["later"] } });
      }
      const { adapters, died } = dyingParts(toy.adapters, call);
      await (await afterDeath(toy, adapters)).restore({ sequence: 1, only: "state" }).catch(() => undefined);
      dead = died();
      const seenNow = async () => (await toy.store.latest(ID))?.planes.context.values["seen"];
      expect((await toy.store.getRun(ID))?.unfinishedRestore).toBeNull();
      expect(await seenNow()).toEqual(dead ? ["later"] : []);
      await using again = await afterDeath(toy);
      await again.restore({ sequence: 1, only: "state" });
      expect(await seenNow()).toEqual([]);
    }
  });
});

describe("what a restore must not lose", () => {
  /** Dies in a step that has changed files; checkpoint 1 has none of them. */
  async function diedInStep(): Promise<TestWorktree & { readonly found: string[]; resume(): Promise<unknown> }> {
    const found: string[] = [];
    const toy = await startTestRunInWorktree();
    const workflow = define({
      work: async ({ step }) => {
        await step("first", () => toy.file("a.txt", "first\n"), { changesFiles: true });
        await step(
          "second",
          () => {
            found.push(readFileSync(join(toy.workspace.root, "a.txt"), "utf8"));
            toy.file("a.txt", "half\n");
            return null;
          },
          { changesFiles: true },
        );
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(toy.adapters, workflow, toy.workspace);
    // The commits are: first started, first finished with its checkpoint, second started, second finished.
    expect(await toy.crash(workflow, 4, "before")).toBe("died");
    expect(found).toEqual(["first\n"]);
    return { ...toy, found, resume: () => toy.go(workflow) };
  }

  test.each([{ only: "files" as const }, { paths: ["a.txt"] }])(
    "a run that died in a step begins it again with the restored files: %j",
    async (scope) => {
      const toy = await diedInStep();
      {
        await using handle = await afterDeath(toy);
        await handle.restore({ sequence: 1, ...scope });
      }
      await toy.resume();
      expect(toy.found).toEqual(["first\n", "one\n"]);
    },
  );

  test("killed at any change of it, the same restore brings the files all the same", async () => {
    for (let call = 1, dead = true; dead; call += 1) {
      const toy = await diedInStep();
      const { adapters, died } = dyingParts(toy.adapters, call);
      const dying = await afterDeath(toy, adapters);
      await dying.restore({ sequence: 1, only: "files" }).catch(() => undefined);
      dead = died();
      if (dead) {
        await using handle = await afterDeath(toy);
        await handle.restore({ sequence: 1, only: "files" });
      } else await dying.close();
      await toy.resume();
      expect(toy.found).toEqual(["first\n", "one\n"]);
    }
  });

  test("a revoked right is not restored", async () => {
    const story = await openCase();
    await using handle = await handleOf(story);
    const position = (await handle.latest())?.planes.position;
    if (position === undefined) throw new Error("no position");
    const { sequence } = await handle.save({ planes: { position: { ...position, yolo: true } } });
    await handle.save({ planes: { position: { ...position, yolo: false } } });
    await handle.restore({ sequence });
    expect((await handle.latest())?.planes.position.yolo).toBe(false);
  });

  test("a restore of values alone is undone with the steps that finished after the newest checkpoint", async () => {
    const toy = await startTestRun(SQLITE, onTestFinished);
    const done: string[] = [];
    const workflow = define({
      work: async ({ step }) => {
        for (const name of ["one", "two", "three"]) await step(name, () => done.push(name));
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(toy.adapters, workflow);
    await toy.crash(workflow, 3, "before");
    const finished = [...done];
    {
      await using handle = await afterDeath(toy);
      const { undo } = await handle.restore({ sequence: 1 });
      await handle.restore({ sequence: undo?.sequence ?? 0 });
    }
    await toy.go(workflow);
    expect(finished.length).toBeGreaterThan(1);
    expect(done.filter((name) => name === "one")).toEqual(["one"]);
  });
});

/** A handle of the next process, after the one that held the run has died. */
async function afterDeath(
  { store, adapters, pass }: Pick<TestRun, "store" | "adapters" | "pass">,
  more: Partial<CoreAdapters> = {},
): Promise<RunHandle> {
  pass(3_600_000);
  const run = await store.getRun(ID);
  if (run === undefined) throw new Error("no run");
  return new RunHandle({ ...adapters, ...more, liveness: () => "dead" }, run);
}

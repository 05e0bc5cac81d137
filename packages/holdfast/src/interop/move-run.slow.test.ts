import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import type { CoreAdapters } from "@holdfast/core/adapters";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import type { Planes } from "@holdfast/core/checkpoint";
import { openMemoryStore } from "@holdfast/core/store-memory";
import type { StoredRun, Store } from "@holdfast/core/store";
import { defineWorkflow } from "@holdfast/core/workflow";
import type { PackedObjects } from "@holdfast/core/workspace";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import type { Holdfast } from "../holdfast.ts";
import { openHoldfast } from "../open.ts";
import { applyRunImport, planRunExport, planRunImport, writeRunExport } from "./move-run.ts";
import { type RunFile, decodeRunFile, encodeRunFile } from "./run-file.ts";

const GIT_ENV = {
  ...process.env,
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_AUTHOR_NAME: "A",
  GIT_AUTHOR_EMAIL: "a@example.com",
  GIT_COMMITTER_NAME: "A",
  GIT_COMMITTER_EMAIL: "a@example.com",
};

function git(cwd: string, ...args: readonly string[]): string {
  return execFileSync("git", args, { cwd, env: GIT_ENV, encoding: "utf8", stdio: ["pipe", "pipe", "pipe"] }).trim();
}

interface Clones {
  readonly folder: string;
  readonly a: string;
  readonly b: string;
  readonly file: string;
}

/** A bare remote with one commit, and two clones of it. */
function clones(): Clones {
  const folder = scratchDirectory(onTestFinished);
  const [remote, a, b] = [join(folder, "remote.git"), join(folder, "one/a"), join(folder, "two/b")];
  git(folder, "init", "-q", "--bare", "-b", "main", remote);
  mkdirSync(join(folder, "one"));
  mkdirSync(join(folder, "two"));
  git(folder, "clone", "-q", remote, a);
  git(a, "checkout", "-q", "-b", "main");
  writeFileSync(join(a, "README.md"), "# A\n");
  git(a, "add", ".");
  git(a, "commit", "-qm", "first");
  git(a, "push", "-q", "-u", "origin", "main");
  git(folder, "clone", "-q", remote, b);
  return { folder, a, b, file: join(folder, "moved.run") };
}

async function open(cwd: string): Promise<Holdfast> {
  const holdfast = await openHoldfast({ cwd });
  onTestFinished(() => holdfast.close());
  return holdfast;
}

/** Writes a file in a step, then asks: the run waits for an answer in whichever clone it is. */
function asking(made: string[]) {
  return defineWorkflow<{ readonly n: number }>({
    name: "asking",
    initial: "work",
    stages: {
      work: async (context) => {
        const root = context.workspace?.root ?? "";
        await context.step(
          "write",
          () => {
            made.push(root);
            writeFileSync(join(root, "made.txt"), "by a step\n");
            return null;
          },
          { changesFiles: true },
        );
        const answer = await context.decide({ name: "go", question: "Continue?", options: ["yes"] });
        return { event: answer, reason: "answered" };
      },
    },
    transitions: { work: { yes: "done" } },
    ends: { done: "done" },
    initialState: () => ({ n: 1 }),
  });
}

async function waitingRun(cwd: string, made: string[] = []): Promise<Holdfast> {
  const holdfast = await open(cwd);
  const { outcome } = await holdfast.start({
    id: "moved",
    workflow: asking(made),
    work: { kind: "task", text: "Move" },
  });
  expect(outcome).toMatchObject({ kind: "waiting", for: "you" });
  return holdfast;
}

async function adaptersOf(holdfast: Holdfast): Promise<CoreAdapters> {
  return await holdfast.work.adapters();
}

async function exported(holdfast: Holdfast, path: string): Promise<void> {
  const planned = await planRunExport(await adaptersOf(holdfast), { run: "moved" });
  expect(planned).toMatchObject({ secrets: [], unsearched: false, unsaved: false });
  writeRunExport(planned, { path, withSecrets: false });
}

async function imported(holdfast: Holdfast, path: string) {
  const adapters = await adaptersOf(holdfast);
  return await applyRunImport(adapters, await planRunImport(adapters, { path, protect: [] }));
}

async function problems(holdfast: Holdfast): Promise<readonly unknown[]> {
  const found = [];
  for await (const event of holdfast.verify()) if (event.kind === "problem") found.push(event.problem);
  return found;
}

describe("a run moves to another clone", () => {
  test("with its journal, files and logs; it is resumed there, and finished steps are not repeated", async () => {
    const { a, b, file } = clones();
    const made: string[] = [];
    const one = await waitingRun(a, made);
    const log = one.logs.open({ run: "moved", stageAttempt: 1, step: "impl/../x" });
    log.append("what an agent printed");
    await log.close();
    await exported(one, file);
    const two = await open(b);
    expect(await imported(two, file)).toEqual({ run: "moved", changed: true });
    expect(await problems(two)).toEqual([]);
    const entries = async ({ store }: Holdfast) => await Array.fromAsync(store.readJournal({ run: "moved" }));
    const [before, after] = [await entries(one), await entries(two)];
    expect(after.slice(0, before.length)).toEqual(before);
    expect(after.slice(before.length).map(({ kind }) => kind)).toEqual([
      "lease.taken",
      "x.run_imported",
      "checkpoint",
      "lease.released",
    ]);
    expect(git(b, "for-each-ref", "--format=%(refname)", "refs/holdfast/")).toContain("refs/holdfast/moved/");
    const [logged] = await two.logs.list("moved");
    expect(logged === undefined ? null : (await two.logs.read(logged, 0)).lines).toEqual(["what an agent printed"]);

    expect(await imported(two, file)).toEqual({ run: "moved", changed: false });
    expect((await entries(two)).length).toBe(after.length);
    await two.work.approve({ run: "moved", answer: "yes", by: "test" });
    const report = await two.resume({ run: "moved", workflow: asking(made) });
    expect(report.outcome).toMatchObject({ kind: "done" });
    expect(made).toHaveLength(1);
    const worktree = join(b, "../b-worktrees/moved");
    expect(readFileSync(join(worktree, "made.txt"), "utf8")).toBe("by a step\n");
    expect(await problems(two)).toEqual([]);
    // The run here is further than the file now; the file is still a part of it.
    expect(await imported(two, file)).toEqual({ run: "moved", changed: false });
  });

  test("after a failure at any change, the same import completes it", async () => {
    const { a, b, file } = clones();
    await exported(await waitingRun(a), file);
    const two = await open(b);
    const whole = await adaptersOf(two);
    const fails = (): Promise<never> => Promise.reject(new Error("killed here"));
    const { store, workspaces, logs } = whole;
    if (workspaces === null) throw new Error("a clone has workspaces");
    const broken: readonly CoreAdapters[] = [
      { ...whole, workspaces: { ...workspaces, unpackRun: fails } },
      { ...whole, workspaces: { ...workspaces, has: fails } },
      { ...whole, store: { ...store, importRun: fails } },
      { ...whole, workspaces: { ...workspaces, pinRun: fails } },
      {
        ...whole,
        workspaces: {
          ...workspaces,
          pinRun: async ({ run, refs }) =>
            void (await workspaces.pinRun({ run, refs: refs.slice(0, 1) }), await fails()),
        },
      },
      { ...whole, logs: { ...logs, list: fails } },
    ];
    for (const adapters of broken)
      await expect(
        planRunImport(adapters, { path: file, protect: [] }).then((plan) => applyRunImport(adapters, plan)),
      ).rejects.toThrow("killed here");
    expect(await imported(two, file)).toEqual({ run: "moved", changed: false });
    expect(await problems(two)).toEqual([]);
  });

  test("not while it runs here, not over another run of that id, and not into a repository without its base", async () => {
    const { folder, a, b, file } = clones();
    const one = await waitingRun(a);
    const lease = await one.store.takeLease({ run: "moved", label: "busy" });
    await expect(exported(one, file)).rejects.toMatchObject({ code: "LEASE_HELD" });
    await one.store.releaseLease(lease);
    await exported(one, file);
    const two = await open(b);
    await two.createRun({ id: "moved" });
    await expect(imported(two, file)).rejects.toMatchObject({ code: "RUN_EXISTS" });
    git(folder, "init", "-q", "-b", "main", "other");
    const other = await open(join(folder, "other"));
    await expect(imported(other, file)).rejects.toMatchObject({
      code: "NEEDS_DECISION",
      hint: expect.stringContaining("git fetch"),
    });
    expect(await other.listRuns()).toEqual([]);
    git(folder, "init", "-q", "-b", "main", "--object-format=sha256", "longer");
    await expect(imported(await open(join(folder, "longer")), file)).rejects.toMatchObject({ code: "NEEDS_DECISION" });
  });

  test("secrets in files, state and logs are named before a file is written", async () => {
    const { a, file } = clones();
    const one = await open(a);
    const secret = `ghp_${"aB3dE5gH7jK9".repeat(3)}`;
    const run = await one.createRun({ id: "moved", workspace: "here" });
    writeFileSync(join(a, "token.txt"), `${secret}\n`);
    await run.save({ values: {}, planes: { extensions: { key: secret } } });
    await run.close();
    const log = one.logs.open({ run: "moved", stageAttempt: 1, step: "impl" });
    log.append(secret);
    await log.close();
    const planned = await planRunExport(await adaptersOf(one), { run: "moved" });
    const places = planned.secrets.map(({ where }) => where);
    expect(places).toEqual(expect.arrayContaining(["token.txt", "the log of impl", "the state of moved@1"]));
    expect(JSON.stringify(planned.secrets)).not.toContain(secret);
    expect(() => writeRunExport(planned, { path: file, withSecrets: false })).toThrow("would hold secrets");
    expect(existsSync(file)).toBe(false);
    writeRunExport(planned, { path: file, withSecrets: true });
    expect(existsSync(file)).toBe(true);
  });
});

/** Files whose digest and hash chain hold, but which no Holdfast would write. */
describe("a hostile run file", () => {
  /** The first checkpoint's planes of a real run are changed, and the whole chain is written again. */
  async function forged(
    clone: Clones,
    change: (planes: Planes) => Planes,
    more: { readonly file?: (file: RunFile) => RunFile; readonly labels?: Readonly<Record<string, string>> } = {},
  ): Promise<Holdfast> {
    const one = await waitingRun(clone.a);
    await exported(one, clone.file);
    const file = decodeRunFile(readFileSync(clone.file));
    const planes = (await one.store.latest("moved"))?.planes ?? emptyPlanes({ workflow: "asking" });
    const stored = await rewritten(change(planes), more.labels ?? {});
    const whole = { ...file, stored };
    writeFileSync(clone.file, encodeRunFile(more.file?.(whole) ?? whole));
    return await open(clone.b);
  }

  async function rewritten(planes: Planes, labels: Readonly<Record<string, string>>): Promise<StoredRun> {
    const store: Store = openMemoryStore();
    await store.createRun({ id: "moved", workflow: "asking", work: { kind: "task", text: "Move" }, labels });
    const lease = await store.takeLease({ run: "moved", label: "forger" });
    await store.commit({ lease, checkpoint: { trigger: "manual", planes } });
    const stored = await store.exportRun("moved");
    await store.close();
    return stored;
  }

  const withFiles =
    (change: Partial<NonNullable<Planes["files"]>>) =>
    (planes: Planes): Planes =>
      planes.files === null ? planes : { ...planes, files: { ...planes.files, ...change } };
  const withObjects = (change: (objects: PackedObjects) => PackedObjects) => ({
    file: (file: RunFile): RunFile => ({ ...file, objects: file.objects === null ? null : change(file.objects) }),
  });
  const same = (planes: Planes): Planes => planes;

  async function refused(clone: Clones, two: Holdfast, code: string): Promise<void> {
    const refs = git(clone.b, "for-each-ref");
    await expect(imported(two, clone.file)).rejects.toMatchObject({ code });
    expect(await two.listRuns()).toEqual([]);
    expect(git(clone.b, "for-each-ref")).toBe(refs);
    expect(existsSync(join(clone.folder, "evil"))).toBe(false);
  }

  test.each<[string, Parameters<typeof forged>[1], Parameters<typeof forged>[2], string]>([
    ["the branch main", withFiles({ branch: "refs/heads/main" }), {}, "UNSUPPORTED"],
    ["a branch that is an option", withFiles({ branch: "refs/heads/--upload-pack=x" }), {}, "FORMAT_DAMAGED"],
    ["a branch outside refs/heads", withFiles({ branch: "refs/remotes/origin/main" }), {}, "FORMAT_DAMAGED"],
    ["a head that is an option", withFiles({ head: "--detach" }), {}, "FORMAT_DAMAGED"],
    ["a tree that is a name", withFiles({ tree: "HEAD" }), {}, "FORMAT_DAMAGED"],
    ["a snapshot that is not its own", withFiles({ ref: "refs/heads/main" }), {}, "FORMAT_DAMAGED"],
    ["work in the user's checkout", same, { labels: { worktree: "main" } }, "UNSUPPORTED"],
    [
      "a ref of another run",
      same,
      withObjects((objects) => ({
        ...objects,
        refs: [...objects.refs, { ref: "refs/holdfast/other/1", id: objects.refs[0]?.id ?? "" }],
      })),
      "FORMAT_DAMAGED",
    ],
    [
      "a ref outside refs/holdfast",
      same,
      withObjects((objects) => ({
        ...objects,
        refs: [...objects.refs, { ref: "refs/holdfast/moved/../../heads/main", id: objects.refs[0]?.id ?? "" }],
      })),
      "FORMAT_DAMAGED",
    ],
    [
      "a prerequisite that is an option",
      same,
      withObjects((objects) => ({ ...objects, prerequisites: ["--all"] })),
      "FORMAT_DAMAGED",
    ],
    [
      "objects that are not a pack",
      same,
      withObjects((objects) => ({ ...objects, pack: Buffer.from("PACK") })),
      "FORMAT_DAMAGED",
    ],
    [
      "planes of another shape",
      (planes) => ({ ...planes, config: { ...planes.config, tools: "all" as unknown as [] } }),
      {},
      "FORMAT_DAMAGED",
    ],
  ])("with %s changes nothing", async (_name, change, more, code) => {
    const clone = clones();
    await refused(clone, await forged(clone, change, more), code);
  });

  test("with a tree that writes into .git is refused by git", async () => {
    const clone = clones();
    const blob = execFileSync("git", ["hash-object", "-w", "--stdin"], {
      cwd: clone.a,
      input: "#!/bin/sh\n",
      encoding: "utf8",
    }).trim();
    const inner = execFileSync("git", ["mktree"], {
      cwd: clone.a,
      input: `100755 blob ${blob}\tpost-checkout\n`,
      encoding: "utf8",
    }).trim();
    const tree = execFileSync("git", ["mktree"], {
      cwd: clone.a,
      input: `040000 tree ${inner}\t.git\n`,
      encoding: "utf8",
    }).trim();
    const pack = execFileSync("git", ["pack-objects", "--stdout", "--revs", "-q"], {
      cwd: clone.a,
      input: `${tree}\n`,
    });
    const ref = "refs/holdfast/moved/1";
    const two = await forged(
      clone,
      withFiles({ tree, snapshot: tree, ref }),
      withObjects((objects) => ({ ...objects, refs: [{ ref, id: tree }], pack })),
    );
    await refused(clone, two, "FORMAT_DAMAGED");
  });

  test("has no worktree path, no rights and no accepted findings", async () => {
    const clone = clones();
    const evil = join(clone.folder, "evil");
    const two = await forged(clone, (planes) => ({
      ...withFiles({ worktree: evil })(planes),
      position: { ...planes.position, yolo: true },
      extensions: { accepted: { branch_diverged: { commit: "a".repeat(40) } }, mine: 1 },
    }));
    expect(await imported(two, clone.file)).toEqual({ run: "moved", changed: true });
    const planes = (await two.store.latest("moved"))?.planes;
    expect(planes?.position.yolo).toBeUndefined();
    expect(planes?.extensions).toEqual({ mine: 1 });
    expect(planes?.files?.worktree).toBe(join(clone.b, "../b-worktrees/moved"));
    // Also not from the older checkpoint, which still names that path.
    await two.resume({ run: "moved", workflow: asking([]), from: 1 });
    expect(existsSync(evil)).toBe(false);
    expect(existsSync(join(clone.b, "../b-worktrees/moved/made.txt"))).toBe(true);
  });
});

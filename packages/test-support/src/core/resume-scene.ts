// A stopped run for tests of resume: worktree, remote, forge and store, which a test can change before the resume.

import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";
import type { Adapters } from "@holdfast/core/adapters";
import { type Checkpoint, type IssueSnapshot, type Planes, type Trigger, emptyPlanes } from "@holdfast/core/checkpoint";
import { systemCommands } from "@holdfast/core/commands";
import {
  type FindingKind,
  type FindingPolicy,
  type Freshness,
  type Setting,
  defaultFindingPolicy,
} from "@holdfast/core/findings";
import type { Forge, PullRequest } from "@holdfast/core/forge";
import type { NewEntry } from "@holdfast/core/journal";
import type { JsonObject } from "@holdfast/core/json";
import { type ResumeCheck, applyResumeCheck, checkResume } from "@holdfast/core/resume";
import type { Answers } from "@holdfast/core/resume-plan";
import { Saver } from "@holdfast/core/save";
import type { Store } from "@holdfast/core/store";
import { openMemoryStore } from "@holdfast/core/store-memory";
import type { Workspace, Workspaces } from "@holdfast/core/workspace";
import { createGitBranches } from "@holdfast/git/branches";
import { openGitWorkspaces } from "@holdfast/git/workspaces";
import { systemClock } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
import { type TestRepository, startCommitted, testRepositoryAt } from "../git/repository.ts";
import { createTestAdapters } from "./work-bench.ts";

export const RUN = "issue-42-abcd";
export const BRANCH = `holdfast/${RUN}`;

/** A forge in memory that can also be made unreachable. */
export interface TestForge {
  issue: IssueSnapshot | null;
  request: PullRequest | null;
  reachable: boolean;
}

/** A run on issue 42 in its own worktree, with a remote, stopped after its first checkpoints. */
export interface StoppedRun {
  readonly repo: TestRepository;
  readonly remote: TestRepository;
  readonly forge: TestForge;
  readonly store: Store;
  readonly workspaces: Workspaces;
  readonly adapters: Adapters;
  readonly current: Setting;
  /** The run's worktree, as a user sees it. */
  worktree(): TestRepository;
  workspace(): Promise<Workspace>;
  newest(): Promise<Checkpoint>;
  /** Saves a checkpoint of the current files, with these values merged over the run's. */
  save(values?: JsonObject, change?: (planes: Planes) => Planes, trigger?: Trigger): Promise<Checkpoint>;
  append(...entries: readonly NewEntry[]): Promise<void>;
  plan(params?: SceneResume): Promise<ResumeCheck>;
  resume(params?: SceneResume): Promise<ResumeCheck>;
  perform(planned: ResumeCheck, adapters?: Adapters): Promise<void>;
  found(): Promise<readonly FindingKind[]>;
}

export interface SceneResume {
  readonly answers?: Answers;
  readonly policy?: Partial<FindingPolicy>;
  readonly freshness?: Freshness;
  readonly current?: Setting;
  readonly chosen?: number;
  readonly force?: boolean;
  /** Replaces the scene's own adapters: a store or workspaces that die. */
  readonly adapters?: Adapters;
}

export const ISSUE: IssueSnapshot = {
  number: 42,
  title: "Refresh tokens",
  body: "Do it.\nSoon.",
  labels: ["feature"],
  state: "open",
  updatedAt: "2026-01-01T00:00:00Z",
};

export function headOf(scene: StoppedRun): string {
  return scene.repo.git("rev-parse", BRANCH).trim();
}

/** Saves the checkpoint of a clean stop in the middle of a step that began at checkpoint 1 and has written half.txt. */
export async function stopDuring(
  scene: StoppedRun,
  step: string,
  sessions: Readonly<Record<string, string>> = {},
): Promise<void> {
  scene.worktree().write("half.txt", "half\n");
  const running = { [step]: { files: true, estimate: null, base: 1 } };
  await scene.save(
    {},
    (planes) => {
      const stageAttempt = { ...planes.position.stageAttempt, running, sessions };
      return { ...planes, position: { ...planes.position, stageAttempt } };
    },
    "interrupt",
  );
}

/** Replaces the remote branch by another history; returns its tip. */
export function forcePush(scene: StoppedRun): string {
  scene.repo.git("checkout", "-q", "--orphan", "theirs");
  scene.repo.git("commit", "-q", "--allow-empty", "-m", "theirs");
  scene.repo.git("push", "-q", "--force", "origin", `theirs:${BRANCH}`);
  return scene.repo.git("rev-parse", "theirs").trim();
}

export function mergedRequest(headCommit: string): PullRequest {
  return {
    number: 7,
    url: "local:7",
    title: "t",
    body: "",
    state: "merged",
    draft: false,
    head: BRANCH,
    headCommit,
    base: "main",
    labels: [],
    mergeability: "mergeable",
  };
}

export async function createStoppedRun(): Promise<StoppedRun> {
  const repo = startCommitted();
  const remotePath = join(dirname(repo.root), "remote.git");
  repo.git("init", "-q", "--bare", "-b", "main", remotePath);
  repo.git("remote", "add", "origin", remotePath);
  repo.git("push", "-q", "origin", "main");
  const base = repo.git("rev-parse", "HEAD").trim();
  const store = openMemoryStore();
  const workspaces = await openGitWorkspaces(repo.root);
  onTestFinished(async () => store.close());
  const forge: TestForge = { issue: ISSUE, request: null, reachable: true };
  const adapters = partsOf({ store, workspaces, forge: forgeOf(forge) });
  const current: Setting = {
    definition: "shape-1",
    config: { ...emptyPlanes().config, agent: "scripted", model: "m" },
  };
  await store.createRun({ id: RUN, workflow: "impl", work: { kind: "issue", number: 42 } });
  const first = await workspaces.create({ run: RUN, base });
  const lease = await store.takeLease({ run: RUN, label: "scene" });

  const workspace = async (): Promise<Workspace> => (await workspaces.find(RUN)) ?? first;
  const newest = async (): Promise<Checkpoint> => {
    const found = await store.latest(RUN);
    if (found === undefined) throw new Error("the scene has no checkpoint");
    return found;
  };
  const scene: StoppedRun = {
    repo,
    remote: testRepositoryAt(remotePath),
    forge,
    store,
    workspaces,
    adapters,
    current,
    worktree: () => testRepositoryAt(first.root),
    workspace,
    newest,
    async save(values = {}, change = (planes) => planes, trigger = "stage") {
      const saver = new Saver(adapters, { id: RUN, workflow: "impl", forkedFrom: null });
      const before = (await store.latest(RUN))?.planes ?? firstPlanes(base, current);
      const { sequence, files } = await saver.snapshot(await workspace(), "scene");
      const context = { ...before.context, values: { ...before.context.values, ...values } };
      const planes = change({ ...before, context, files });
      await saver.commit({ lease, planes, params: { trigger }, entries: [], sequence });
      return await newest();
    },
    async append(...entries) {
      await store.commit({ lease, entries });
    },
    async plan(params = {}) {
      return await checkResume({
        adapters: params.adapters ?? adapters,
        run: RUN,
        current: params.current ?? current,
        policy: { ...defaultFindingPolicy, ...params.policy },
        freshness: params.freshness ?? null,
        answers: params.answers ?? {},
        force: params.force ?? false,
        ...(params.chosen === undefined ? {} : { chosen: params.chosen }),
      });
    },
    async resume(params = {}) {
      const planned = await scene.plan(params);
      await scene.perform(planned, params.adapters);
      return planned;
    },
    async perform(planned, through = adapters) {
      await applyResumeCheck({ adapters: through, lease, planned });
    },
    async found() {
      return (await scene.plan()).findings.map((finding) => finding.kind);
    },
  };
  scene.worktree().write("work.txt", "half done\n");
  await scene.save();
  return scene;
}

function firstPlanes(base: string, current: Setting): Planes {
  const planes = emptyPlanes({ workflow: "impl", stage: "impl" });
  return {
    ...planes,
    position: { ...planes.position, definition: current.definition, iteration: 1 },
    config: current.config,
    context: {
      ...planes.context,
      values: { issue: { ...ISSUE }, base: { branch: "main", commit: base }, pushed: null, pullRequest: null },
    },
  };
}

function partsOf(has: Pick<Adapters, "store" | "workspaces" | "forge">): Adapters {
  const unused = (): never => {
    throw new Error("a resume's pre-flight needs none of this");
  };
  const { store, workspaces, forge } = has;
  return {
    ...createTestAdapters({ store, workspaces, clock: systemClock }).adapters,
    forge,
    branches: createGitBranches(),
    commands: { run: unused, endMarked: systemCommands.endMarked, findUnmarked: systemCommands.findUnmarked },
    outputs: unused,
    projectRoot: unused,
    wait: unused,
  };
}

function forgeOf(state: TestForge): Forge {
  const ask = <T>(answer: () => T): Promise<T> =>
    state.reachable
      ? Promise.resolve(answer())
      : Promise.reject(new HoldfastError({ code: "FORGE_FAILED", message: "no route to the forge", retry: "later" }));
  const unused = (): never => {
    throw new Error("a resume's pre-flight only looks");
  };
  const forge: Forge = {
    name: "test",
    location: "memory",
    lateMs: 0,
    marked: () => forge,
    getIssue: (number) => ask(() => (state.issue?.number === number ? state.issue : null)),
    issueComments: () => ask(() => state.issue?.comments ?? []),
    findPullRequest: (head) => ask(() => (state.request?.head === head ? state.request : null)),
    getPullRequest: (number) => ask(() => (state.request?.number === number ? state.request : null)),
    defaultBranch: () => ask(() => "main"),
    checks: unused,
    createIssue: unused,
    findIssue: unused,
    setLabels: unused,
    findComment: unused,
    comment: unused,
    deleteComment: unused,
    closePullRequest: unused,
    createPullRequest: unused,
    updatePullRequest: unused,
    mergePullRequest: unused,
    reviews: unused,
  };
  return forge;
}

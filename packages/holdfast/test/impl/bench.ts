import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createAgentRegistry } from "@holdfast/agents/registry";
import type { JsonObject } from "@holdfast/core/json";
import { answerDecision, beginRun } from "@holdfast/core/control-run";
import { executeRun } from "@holdfast/core/execute";
import type { ProgressListener, RunOutcome } from "@holdfast/core/progress";
import type { Adapters } from "@holdfast/core/adapters";
import { openLocalForge } from "@holdfast/forges/local";
import { createSyntaxGate } from "@holdfast/workflows/syntax-gate";
import { type Clock, systemClock } from "@holdfast/platform/clock";
import type { Forge } from "@holdfast/core/forge";
import type { Store } from "@holdfast/core/store";
import { createMemoryDatabase, openMemoryStore } from "@holdfast/core/store-memory";
import { createAgentLogFiles } from "@holdfast/core/agent-log";
import { systemCommands } from "@holdfast/core/commands";
import { createOutputs } from "@holdfast/platform/outputs";
import { livenessOf, processIdentity } from "@holdfast/platform/identity";
import { createTestAdapters } from "@holdfast/test-support/core/work-bench";
import { createGitBranches } from "@holdfast/git/branches";
import { openGitWorkspaces } from "@holdfast/git/workspaces";
import { implWorkflow } from "@holdfast/workflows/impl/workflow";
import { parseImplOptions } from "@holdfast/workflows/impl/options";
import { type ImplState, parseImplState } from "@holdfast/workflows/impl/state";
import { applyLimits } from "../../src/change-limits.ts";
import { type BenchGit, benchGit } from "../bench/bench-git.ts";
import { makeRepository } from "../bench/make-repository.ts";
import { putFiles } from "../bench/put-files.ts";
import { type RunStory, runStory } from "../bench/run-story.ts";

const RUN = "issue-1-bench";

/** What an agent does, according to its script; see docs/agents.md. */
export type Answer = JsonObject;

export interface Bench extends RunStory, AsyncDisposable {
  readonly root: string;
  readonly forge: ReturnType<typeof openLocalForge>;
  readonly store: Store;
  /** Of a process that lives on and works with this store. */
  readonly adapters: Adapters;
  /** Git in the user's clone, in the remote, or in the run's worktree. */
  readonly git: BenchGit<"clone" | "remote" | "worktree">;
  /** Starts the run, or resumes it, and executes it as far as possible: the life of one process. */
  work(params?: Life): Promise<RunOutcome | { readonly kind: "killed" }>;
  /** Raises limits as `holdfast resume` does; the next life uses them. */
  raise(limits: JsonObject, dies?: Life["dies"]): Promise<"raised" | "killed">;
  /** The user's answer to the question that the run waits for. */
  answer(text: string): Promise<void>;
  /** A shell command that, the first time it runs, puts another user's commit on the base branch. */
  moveBaseOnce(path: string, text: string): Promise<string>;
  state(): Promise<ImplState>;
  /** A file of the worktree; null when it is not there. */
  read(path: string): Promise<string | null>;
  pulls(): Promise<number>;
}

export interface Life {
  readonly signal?: AbortSignal;
  readonly listen?: ProgressListener;
  /** What this process takes for the time. */
  readonly clock?: Clock;
  /**
   * The process dies at its nth commit to the store: before or after the commit. Nothing that it does later reaches the
   * store.
   */
  readonly dies?: { readonly at: number; readonly when: "before" | "after" };
}

/** A remote, a clone, an issue and a scripted agent: everything real, nothing beyond this machine. */
export async function makeBench(params: {
  readonly answers: readonly Answer[];
  readonly options?: JsonObject;
  readonly files?: Readonly<Record<string, string>>;
  readonly agentIdleMs?: number;
  /** Another forge for the runs than the local one, over the same bare repository. */
  readonly openForge?: (remote: string) => Forge;
}): Promise<Bench> {
  const root = await mkdtemp(join(tmpdir(), "holdfast-impl-"));
  const at = { clone: join(root, "clone"), remote: join(root, "remote.git"), worktree: join(root, "work", RUN) };
  const git: Bench["git"] = benchGit((where) => at[where]);
  await makeRepository({ ...at, git, files: params.files });
  const forge = openLocalForge({ repository: at.remote });
  const { number } = await forge.createIssue({ title: "Add a greeting", body: "Say hello.", labels: [], key: "bench" });
  const runForge = params.openForge?.(at.remote) ?? forge;
  await putFiles(root, { "script.yaml": JSON.stringify({ answers: params.answers }) });

  const workspaces = await openGitWorkspaces(at.clone);
  const database = createMemoryDatabase();
  const store = openMemoryStore({ database });
  const partsOf = (own: Store, clock: Clock = systemClock): Adapters => ({
    ...createTestAdapters({ store: own, clock, workspaces }).adapters,
    liveness: (owner) => livenessOf(owner, processIdentity()),
    worktreePath: (id) => join(root, "work", id),
    agent: (provider) => createAgentRegistry({ clock: systemClock, directory: root }).agent(provider),
    agentIdleMs: params.agentIdleMs ?? null,
    forge: runForge,
    branches: createGitBranches(),
    commands: systemCommands,
    syntax: createSyntaxGate(),
    outputs: createOutputs,
    logs: createAgentLogFiles(join(root, "logs")),
  });
  let { options } = parseImplOptions({ implModel: "scripted:script.yaml", ...params.options });

  const story = runStory(store, () => RUN);
  let lives = 0;
  /** To the next life, this one is an earlier process of the same number: dead. */
  const nextLife = (dies: Life["dies"], clock: Clock): ReturnType<typeof mortalStore> => {
    lives += 1;
    const own = openMemoryStore({ database, clock, identity: { ...processIdentity(), started: String(-lives) } });
    return dies === undefined ? { store: own, isDead: () => false } : mortalStore(own, dies);
  };
  return {
    root,
    forge,
    store,
    adapters: partsOf(store),
    git,
    ...story,
    state: async () => parseImplState((await story.planes()).context.values),
    answer: (text) => answerDecision({ adapters: partsOf(store), run: RUN, answer: text }),
    async work({ signal = new AbortController().signal, listen = () => undefined, dies, clock = systemClock } = {}) {
      const mortal = nextLife(dies, clock);
      const adapters = partsOf(mortal.store, clock);
      const workflow = implWorkflow(options, adapters);
      try {
        const path = join(root, "work", RUN);
        const workspace = await workspaces.create({ run: RUN, path, base: "origin/main" });
        const inputs = { issue: null, task: null, base: null, plan: null };
        const config = { agent: null, model: null, temperature: null, seed: null, mode: "default" as const, tools: [] };
        await beginRun({
          adapters,
          workflow,
          id: RUN,
          work: { kind: "issue", number },
          inputs,
          config: { ...config, inputs: options },
          workspace,
        });
        return await executeRun({ adapters, run: RUN, workflow, signal, listen });
      } catch (error) {
        if (mortal.isDead()) return { kind: "killed" };
        throw error;
      }
    },
    async raise(limits, dies) {
      const mortal = nextLife(dies, systemClock);
      try {
        await applyLimits(partsOf(mortal.store), { run: RUN, limits });
      } catch (error) {
        if (mortal.isDead()) return "killed";
        throw error;
      }
      ({ options } = parseImplOptions((await story.planes()).config.inputs));
      return "raised";
    },
    async moveBaseOnce(path, text) {
      await putFiles(root, { "base-file": text });
      const steps = [
        `[ -e ${root}/base-moved ] && exit 0`,
        `touch ${root}/base-moved`,
        `cd ${at.clone}`,
        `cp ${root}/base-file ${path}`,
        `git add -A`,
        `git -c user.name=b -c user.email=b@example.org commit -qm "Change ${path}"`,
        `git push -q origin main`,
      ];
      await putFiles(root, { "move-base.sh": `set -e\n${steps.join("\n")}\n` });
      return `sh ${root}/move-base.sh`;
    },
    read: async (path) => await readFile(join(at.worktree, path), "utf8").catch(() => null),
    async pulls() {
      let found = 0;
      for (let one = 1; one < 20; one += 1) if ((await forge.getPullRequest(one)) !== null) found += 1;
      return found;
    },
    async [Symbol.asyncDispose]() {
      await systemCommands.endMarked(RUN);
      await store.close();
      await workspaces.close();
      await rm(root, { recursive: true, force: true });
    },
  };
}

function mortalStore(
  store: Store,
  dies: NonNullable<Life["dies"]>,
): { readonly store: Store; readonly isDead: () => boolean } {
  let commits = 0;
  let dead = false;
  const refuse = (): Promise<never> => Promise.reject(new Error("the process is dead"));
  const commit: Store["commit"] = async (request) => {
    if (dead) return await refuse();
    commits += 1;
    dead = commits >= dies.at;
    if (!dead) return await store.commit(request);
    if (dies.when === "after") await store.commit(request);
    return await refuse();
  };
  const proxy = new Proxy(store, {
    get(target, name, receiver) {
      if (name === "commit") return commit;
      const value: unknown = Reflect.get(target, name, receiver);
      return dead && typeof value === "function" ? refuse : value;
    },
  });
  return { store: proxy, isDead: () => dead };
}

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openHoldfast } from "../../src/open.ts";
import type { Holdfast } from "../../src/holdfast.ts";
import type { ProgressEvent, RunOutcome } from "@holdfast/core/progress";
import type { ImportPlan } from "../../src/interop/import.ts";
import type { StartPlan } from "../../src/plan-start.ts";
import type { JsonObject } from "@holdfast/core/json";
import type { Budget } from "@holdfast/core/position";
import { openLocalForge } from "@holdfast/forges/local";
import { DEFAULT_LAYOUT } from "@holdfast/workflows/plugin";
import { type RalphState, parseRalphState } from "@holdfast/workflows/ralph/state";
import { type BenchGit, benchGit } from "../bench/bench-git.ts";
import { makeRepository } from "../bench/make-repository.ts";
import { putFiles } from "../bench/put-files.ts";
import { type RunStory, runStory } from "../bench/run-story.ts";
import { withoutPauses } from "../bench/without-pauses.ts";

/** What an agent does, according to its script; see docs/agents.md. */
export type Answer = JsonObject;

export interface Bench extends RunStory, AsyncDisposable {
  readonly root: string;
  readonly clone: string;
  readonly holdfast: Holdfast;
  /** null: the repository has no remote. */
  readonly forge: ReturnType<typeof openLocalForge> | null;
  run(): string;
  readonly git: BenchGit<"clone" | "remote" | "worktree">;
  /** Of the run that is to be begun. */
  plan(): Promise<StartPlan>;
  /** Starts the run, or resumes it. */
  work(params?: {
    readonly limit?: Partial<Budget["limit"]>;
    readonly signal?: AbortSignal;
    readonly listen?: (event: ProgressEvent) => void;
    readonly limits?: JsonObject;
    readonly force?: boolean;
    readonly from?: number;
  }): Promise<RunOutcome>;
  /** Imports files of the clone; the run that they become is the bench's. */
  imports(...paths: readonly string[]): Promise<ImportPlan>;
  answer(text: string): Promise<void>;
  raise(max: number): Promise<void>;
  state(): Promise<RalphState>;
  /** How often the agent was called. */
  calls(): Promise<number>;
  /** A file of the worktree; null when it is not there. */
  read(path: string): Promise<string | null>;
}

/** A repository, a task or an issue, and a scripted agent: everything real, nothing beyond this machine. */
export async function makeBench(params: {
  readonly answers: readonly Answer[];
  readonly options?: JsonObject;
  /** Works for issue 1 of a local forge; else for a task in a repository without any remote. */
  readonly issue?: boolean;
  readonly limit?: Partial<Budget["limit"]>;
  readonly files?: Readonly<Record<string, string>>;
  readonly mode?: "logged";
  readonly layout?: "own" | "seed";
}): Promise<Bench> {
  const root = await mkdtemp(join(tmpdir(), "holdfast-ralph-"));
  const issue = params.issue ?? false;
  const at = { clone: join(root, "clone"), remote: join(root, "remote.git") };
  let id = "";
  const worktree = (): string => join(root, "clone-worktrees", id);
  const git: Bench["git"] = benchGit((where) => (where === "worktree" ? worktree() : at[where]));
  await makeRepository({ clone: at.clone, remote: issue ? at.remote : null, git, files: params.files });
  const forge = issue ? openLocalForge({ repository: at.remote }) : null;
  await forge?.createIssue({ title: "Add the answer", body: "It is 42.", labels: [], key: "bench" });
  await putFiles(root, { "script.json": JSON.stringify({ answers: params.answers }) });
  const loopLayout = { ...DEFAULT_LAYOUT, layout: params.layout ?? "own" };
  const holdfast = await openHoldfast({ cwd: at.clone, adapters: withoutPauses, loopLayout });
  const adopt = { agent: `scripted:${join(root, "script.json")}`, options: params.options ?? {} };
  const story = runStory(holdfast.store, () => id);
  const plan: Bench["plan"] = async () => {
    const planned = await holdfast.work.plan({
      workflow: "ralph",
      work: issue ? { kind: "issue", number: 1 } : { kind: "task", text: "Write the answer" },
      agent: `scripted:${join(root, "script.json")}`,
      limit: params.limit ?? {},
      ...(params.mode === undefined ? {} : { mode: params.mode }),
      options: {
        task: "Write the answer",
        until: "grep -q 42 answer.txt",
        pullRequest: issue,
        ...params.options,
      },
    });
    ({ id } = planned);
    return planned;
  };
  return {
    root,
    clone: at.clone,
    holdfast,
    forge,
    run: () => id,
    git,
    plan,
    ...story,
    async imports(...paths) {
      const [planned] = await holdfast.formats.planImport({ paths });
      if (planned === undefined) throw new Error("nothing would be imported");
      await holdfast.formats.applyImport(planned);
      id = planned.run;
      return planned;
    },
    async work({ limit, signal, listen, ...rest } = {}) {
      const watching = { ...(signal === undefined ? {} : { signal }), ...(listen === undefined ? {} : { listen }) };
      if (id !== "")
        return (
          await holdfast.resume({ run: id, adopt, ...(limit === undefined ? {} : { limit }), ...watching, ...rest })
        ).outcome;
      return (await holdfast.work.start(await plan(), watching)).outcome;
    },
    answer: (answer) => holdfast.work.approve({ run: id, answer, by: "tester" }),
    raise: (max) => holdfast.work.changeLimits({ run: id, limits: { max: max } }),
    state: async () => parseRalphState((await story.planes()).context.values),
    async calls() {
      const begun = (await story.journal()).filter(
        ({ kind, body }) => kind === "step.started" && body["step"] === "agent",
      );
      return begun.length;
    },
    read: async (path) => await readFile(join(worktree(), path), "utf8").catch(() => null),
    async [Symbol.asyncDispose]() {
      await holdfast.close();
      await rm(root, { recursive: true, force: true });
    },
  };
}

/** A turn that writes a file; every one of them takes the same. */
export function writes(text: string, rest: JsonObject = {}): Answer {
  return {
    edits: [{ do: "write", path: "answer.txt", text }],
    reply: `I wrote ${text}`,
    usage: { input: 300, output: 100, microUsd: 5000 },
    ...rest,
  };
}

/** In the iterations named, one after the other; the last goes for all that follow. */
export function inTurn(...texts: readonly string[]): readonly Answer[] {
  return texts.map((text, index) => writes(text, index === texts.length - 1 ? {} : { when: { iteration: index + 1 } }));
}

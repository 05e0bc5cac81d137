import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openHoldfast } from "../../src/open.ts";
import type { Holdfast } from "../../src/holdfast.ts";
import type { ResumeParams } from "../../src/resume-request.ts";
import type { ExecutionConfig } from "@holdfast/core/checkpoint";
import { type CrunchState, parseCrunchState } from "@holdfast/workflows/crunch/state";
import { DEFAULT_LAYOUT } from "@holdfast/workflows/plugin";
import type { JsonObject } from "@holdfast/core/json";
import type { RunOutcome } from "@holdfast/core/progress";
import { openLocalForge } from "@holdfast/forges/local";
import { type BenchGit, benchGit } from "../bench/bench-git.ts";
import { makeRepository } from "../bench/make-repository.ts";
import { putFiles } from "../bench/put-files.ts";
import { type RunStory, runStory } from "../bench/run-story.ts";
import { withoutPauses } from "../bench/without-pauses.ts";

/** What an agent does, according to its script; see docs/agents.md. */
export type Answer = JsonObject;

type Watched = Pick<ResumeParams, "signal" | "listen" | "answers" | "limits" | "from" | "force">;

export interface Bench extends RunStory, AsyncDisposable {
  readonly root: string;
  readonly holdfast: Holdfast;
  readonly forge: ReturnType<typeof openLocalForge>;
  readonly run: string;
  readonly git: BenchGit<"clone" | "remote" | "worktree">;
  /** Agent and options of an import's first resume. */
  readonly adopt: NonNullable<ResumeParams["adopt"]>;
  /** Imports crunch's documents, oldest first, as the run. */
  imports(...documents: readonly JsonObject[]): Promise<void>;
  /** Starts the run, or resumes it. */
  work(params?: Watched): Promise<RunOutcome>;
  /** The user's answer to the question that the run waits for. */
  answer(text: string): Promise<void>;
  /** Enriches another issue in its own run; returns the resulting state. */
  second(issue: number): Promise<CrunchState>;
  state(): Promise<CrunchState>;
  labels(): Promise<readonly string[]>;
  /** A file of the worktree; null when it is not there. */
  read(path: string): Promise<string | null>;
}

/** A remote, a clone, an issue and scripted agents: everything real, nothing beyond this machine. */
export async function makeBench(params: {
  readonly answers: readonly Answer[];
  readonly options?: JsonObject;
  readonly issue?: { readonly title?: string; readonly body?: string; readonly labels?: readonly string[] };
  readonly files?: Readonly<Record<string, string>>;
  readonly mode?: ExecutionConfig["mode"];
  readonly layout?: "own" | "seed";
}): Promise<Bench> {
  const root = await mkdtemp(join(tmpdir(), "holdfast-crunch-"));
  const run = "issue-1";
  const at = {
    clone: join(root, "clone"),
    remote: join(root, "remote.git"),
    worktree: join(root, "clone-worktrees", run),
  };
  const git: Bench["git"] = benchGit((where) => at[where]);
  await makeRepository({ ...at, git, files: params.files });
  const forge = openLocalForge({ repository: at.remote });
  const { title = "Add a greeting", body = "Say hello.", labels = [] } = params.issue ?? {};
  await forge.createIssue({ title, body, labels, key: "bench" });
  await putFiles(root, { "script.json": JSON.stringify({ answers: params.answers }) });
  const agent = `scripted:${join(root, "script.json")}`;
  const loopLayout = { ...DEFAULT_LAYOUT, layout: params.layout ?? "own" };
  const holdfast = await openHoldfast({ cwd: at.clone, adapters: withoutPauses, loopLayout });
  const adopt = { agent, options: params.options ?? {} };
  const story = runStory(holdfast.store, () => run);
  return {
    root,
    holdfast,
    forge,
    run,
    git,
    adopt,
    ...story,
    async imports(...documents) {
      const paths = documents.map((_, at) => join(root, "theirs", `${at}.json`));
      const files = documents.map((document, at) => [`theirs/${at}.json`, JSON.stringify(document)] as const);
      await putFiles(root, Object.fromEntries(files));
      for (const plan of await holdfast.formats.planImport({ paths, run })) await holdfast.formats.applyImport(plan);
    },
    async work(watched = {}) {
      const begun = (await holdfast.store.getRun(run)) !== undefined;
      const report = begun
        ? await holdfast.resume({ run, adopt, ...watched })
        : await holdfast.start({
            workflow: "crunch",
            work: { kind: "issue", number: 1 },
            agent,
            options: params.options ?? {},
            mode: params.mode ?? "default",
            ...watched,
          });
      return report.outcome;
    },
    async second(number) {
      const options = { ...params.options, target: "enrich" };
      const work = { kind: "issue", number } as const;
      const report = await holdfast.start({ workflow: "crunch", work, agent, options, again: true });
      const latest = await holdfast.store.latest(report.run);
      return parseCrunchState(latest?.planes.context.values ?? {});
    },
    answer: (answer) => holdfast.work.approve({ run, answer, by: "tester" }),
    state: async () => parseCrunchState((await story.planes()).context.values),
    labels: async () => (await forge.getIssue(1))?.labels ?? [],
    read: async (path) => await readFile(join(at.worktree, path), "utf8").catch(() => null),
    async [Symbol.asyncDispose]() {
      await holdfast.close();
      await rm(root, { recursive: true, force: true });
    },
  };
}

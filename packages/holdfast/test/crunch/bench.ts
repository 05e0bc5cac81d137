import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { openHoldfast } from "../../src/app.ts";
import type { Holdfast } from "../../src/app.ts";
import type { ExecutionConfig, Planes } from "../../src/core/checkpoint.ts";
import { parseCrunchState } from "../../src/core/crunch/crunch-state.ts";
import type { CrunchState } from "../../src/core/crunch/crunch-state.ts";
import type { JournalEntry } from "../../src/core/journal.ts";
import type { JsonObject } from "../../src/core/json.ts";
import type { RunOutcome } from "../../src/engine/outcome.ts";
import { openLocalForge } from "../../src/forges/local/local-forge.ts";

const execute = promisify(execFile);

/** What an agent does, as its script says; see docs/agents.md. */
export type Answer = JsonObject;

export interface Bench extends AsyncDisposable {
  readonly root: string;
  readonly holdfast: Holdfast;
  readonly forge: ReturnType<typeof openLocalForge>;
  readonly run: string;
  git(where: "clone" | "remote" | "worktree", ...args: readonly string[]): Promise<string>;
  /** Begins the run, or goes on with it. */
  work(): Promise<RunOutcome>;
  /** A person's answer to the question that the run waits with. */
  answer(text: string): Promise<void>;
  /** Another issue is enriched, in a run of its own; what that run then knows. */
  second(issue: number): Promise<CrunchState>;
  planes(): Promise<Planes>;
  state(): Promise<CrunchState>;
  /** "stage:event" in the order of the journal. */
  trail(): Promise<readonly string[]>;
  journal(): Promise<readonly JournalEntry[]>;
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
}): Promise<Bench> {
  const root = await mkdtemp(join(tmpdir(), "holdfast-crunch-"));
  const run = "issue-1";
  const at = {
    clone: join(root, "clone"),
    remote: join(root, "remote.git"),
    worktree: join(root, "clone-worktrees", run),
  };
  const git: Bench["git"] = async (where, ...args) => {
    const { stdout } = await execute("git", ["-C", at[where], ...args], { env: GIT_ENV });
    return stdout.trim();
  };
  await execute("git", ["init", "-q", "--bare", "-b", "main", at.remote], { env: GIT_ENV });
  await execute("git", ["clone", "-q", at.remote, at.clone], { env: GIT_ENV });
  await git("clone", "checkout", "-q", "-B", "main");
  await put(at.clone, params.files ?? { "readme.md": "hello\n" });
  await git("clone", "add", "-A");
  await git("clone", "commit", "-qm", "first");
  await git("clone", "push", "-q", "-u", "origin", "main");
  await git("clone", "remote", "set-head", "origin", "main");
  const forge = openLocalForge({ repository: at.remote });
  const { title = "Add a greeting", body = "Say hello.", labels = [] } = params.issue ?? {};
  await forge.createIssue({ title, body, labels, key: "bench" });
  await put(root, { "script.json": JSON.stringify({ answers: params.answers }) });
  const agent = `scripted:${join(root, "script.json")}`;
  const holdfast = await openHoldfast({
    cwd: at.clone,
    parts: (parts) => ({
      ...parts,
      // Pauses are counted, not waited for.
      wait: (_, signal) => {
        signal.throwIfAborted();
        return Promise.resolve();
      },
    }),
  });
  const planes = async (): Promise<Planes> => {
    const latest = await holdfast.store.latest(run);
    if (latest === undefined) throw new Error("the run has no checkpoint");
    return latest.planes;
  };
  const journal = () => Array.fromAsync(holdfast.store.readJournal({ run }));
  return {
    root,
    holdfast,
    forge,
    run,
    git,
    planes,
    journal,
    async work() {
      const begun = (await holdfast.store.getRun(run)) !== undefined;
      const report = begun
        ? await holdfast.resume({ run })
        : await holdfast.start({
            workflow: "crunch",
            work: { kind: "issue", number: 1 },
            agent,
            options: params.options ?? {},
            mode: params.mode ?? "default",
          });
      return report.outcome;
    },
    async second(number) {
      const options = { ...params.options, target: "enrich" };
      const report = await holdfast.start({ workflow: "crunch", work: { kind: "issue", number }, agent, options });
      const latest = await holdfast.store.latest(report.run);
      return parseCrunchState(latest?.planes.context.values ?? {});
    },
    answer: (answer) => holdfast.work.approve({ run, answer, by: "tester" }),
    state: async () => parseCrunchState((await planes()).context.values),
    async trail() {
      const ended = (await journal()).filter((entry) => entry.kind === "stage.ended");
      return ended.map(({ body: told }) => `${String(told["stage"])}:${String(told["event"])}`);
    },
    labels: async () => (await forge.getIssue(1))?.labels ?? [],
    read: async (path) => await readFile(join(at.worktree, path), "utf8").catch(() => null),
    async [Symbol.asyncDispose]() {
      await holdfast.close();
      await rm(root, { recursive: true, force: true });
    },
  };
}

const GIT_ENV = {
  PATH: process.env["PATH"],
  HOME: "/nonexistent",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_AUTHOR_NAME: "a",
  GIT_AUTHOR_EMAIL: "a@example.org",
  GIT_COMMITTER_NAME: "a",
  GIT_COMMITTER_EMAIL: "a@example.org",
};

async function put(root: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
}

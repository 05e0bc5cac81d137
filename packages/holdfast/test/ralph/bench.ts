import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { openHoldfast } from "../../src/app.ts";
import type { Holdfast, ProgressEvent, RunOutcome } from "../../src/app.ts";
import type { Planes } from "../../src/core/checkpoint.ts";
import type { JournalEntry } from "../../src/core/journal.ts";
import type { JsonObject } from "../../src/core/json.ts";
import type { Budget } from "../../src/core/position.ts";
import { openLocalForge } from "../../src/forges/local/local-forge.ts";
import { parseLoopState } from "../../src/workflows/ralph/state.ts";
import type { LoopState } from "../../src/workflows/ralph/state.ts";

const execute = promisify(execFile);

/** What an agent does, as its script says; see docs/agents.md. */
export type Answer = JsonObject;

export interface Bench extends AsyncDisposable {
  readonly root: string;
  readonly clone: string;
  readonly holdfast: Holdfast;
  /** null: the repository has no remote. */
  readonly forge: ReturnType<typeof openLocalForge> | null;
  run(): string;
  git(where: "clone" | "remote" | "worktree", ...args: readonly string[]): Promise<string>;
  /** Begins the run, or goes on with it. */
  work(params?: {
    readonly limit?: Partial<Budget["limit"]>;
    readonly signal?: AbortSignal;
    readonly listen?: (event: ProgressEvent) => void;
  }): Promise<RunOutcome>;
  answer(text: string): Promise<void>;
  raise(max: number): Promise<void>;
  planes(): Promise<Planes>;
  state(): Promise<LoopState>;
  /** "stage:event" in the order of the journal. */
  trail(): Promise<readonly string[]>;
  journal(): Promise<readonly JournalEntry[]>;
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
}): Promise<Bench> {
  const root = await mkdtemp(join(tmpdir(), "holdfast-ralph-"));
  const issue = params.issue ?? false;
  const at = { clone: join(root, "clone"), remote: join(root, "remote.git") };
  let id = "";
  const worktree = (): string => join(root, "clone-worktrees", id);
  const git: Bench["git"] = async (where, ...args) => {
    const folder = where === "worktree" ? worktree() : at[where];
    const { stdout } = await execute("git", ["-C", folder, ...args], { env: GIT_ENV });
    return stdout.trim();
  };
  await mkdir(at.clone);
  await git("clone", "init", "-q", "-b", "main");
  await put(at.clone, params.files ?? { "readme.md": "hello\n" });
  await git("clone", "config", "user.name", "A");
  await git("clone", "config", "user.email", "a@example.org");
  await git("clone", "add", "-A");
  await git("clone", "commit", "-qm", "first");
  if (issue) {
    await execute("git", ["init", "-q", "--bare", "-b", "main", at.remote], { env: GIT_ENV });
    await git("clone", "remote", "add", "origin", at.remote);
    await git("clone", "push", "-q", "-u", "origin", "main");
    await git("clone", "remote", "set-head", "origin", "main");
  }
  const forge = issue ? openLocalForge({ repository: at.remote }) : null;
  await forge?.createIssue({ title: "Add the answer", body: "It is 42.", labels: [], key: "bench" });
  await put(root, { "script.json": JSON.stringify({ answers: params.answers }) });
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
    const latest = await holdfast.store.latest(id);
    if (latest === undefined) throw new Error("the run has no checkpoint");
    return latest.planes;
  };
  const journal = () => Array.fromAsync(holdfast.store.readJournal({ run: id }));
  return {
    root,
    clone: at.clone,
    holdfast,
    forge,
    run: () => id,
    git,
    planes,
    journal,
    async work({ limit, signal, listen } = {}) {
      const watching = { ...(signal === undefined ? {} : { signal }), ...(listen === undefined ? {} : { listen }) };
      if (id !== "")
        return (await holdfast.resume({ run: id, ...(limit === undefined ? {} : { limit }), ...watching })).outcome;
      const report = await holdfast.work.plan({
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
      ({ id } = report);
      return (await holdfast.work.start(report, watching)).outcome;
    },
    answer: (answer) => holdfast.work.approve({ run: id, answer, by: "tester" }),
    raise: (max) => holdfast.work.raiseIterations({ run: id, max }),
    state: async () => parseLoopState((await planes()).context.values),
    async trail() {
      const ended = (await journal()).filter((entry) => entry.kind === "stage.ended");
      return ended.map(({ body }) => `${String(body["stage"])}:${String(body["event"])}`);
    },
    async calls() {
      const begun = (await journal()).filter(({ kind, body }) => kind === "step.started" && body["step"] === "agent");
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

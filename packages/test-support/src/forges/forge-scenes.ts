// Forges for tests: GitHub and GitLab on loopback, through their real programs or plain HTTP, and a local forge.

import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Forge } from "@holdfast/core/forge";
import { createGhTransport, createGithubTokenTransport, openGithubForge } from "@holdfast/forges/github";
import { createGitlabTokenTransport, createGlabTransport, openGitlabForge } from "@holdfast/forges/gitlab";
import { type LocalForgeOptions, openLocalForge } from "@holdfast/forges/local";
import type { ServerForgeOptions, Transport } from "@holdfast/forges/transport";
import type { Clock } from "@holdfast/platform/clock";
import { findProgram } from "@holdfast/platform/subprocess";
import type { ForgeHarness } from "@holdfast/testing/forge-contract";
import { type TestRepository, createTestRepository, testRepositoryAt } from "../git/repository.ts";
import { type GithubServer, startGithubServer } from "./github-server.ts";
import type { CheckRunRecord, Repository } from "./github-state.ts";
import { type GitlabNote, type GitlabServer, type Project, startGitlabServer } from "./gitlab-server.ts";

/** A loopback GitHub with one repository `octo/app`, reached in one of the two ways. */
export interface GithubScene extends ForgeHarness {
  readonly server: GithubServer;
  readonly repository: Repository;
  readonly remote: BareRemote;
  /** The environment of a user whose `gh` and token lead to this server. */
  readonly env: NodeJS.ProcessEnv;
  transport(options?: { readonly token?: string; readonly timeoutMs?: number; readonly host?: string }): Transport;
  forge(options?: Partial<ServerForgeOptions>): Forge;
  clone(): UserClone;
  dispose(): Promise<void>;
}

/** A clone as a user has it: its remote is the forge's own address, and only git's config leads it to the loopback server. */
export interface UserClone {
  readonly cwd: string;
  /** Contains a login for the server: the one of the scene's program, or a token if the scene has no program. */
  readonly env: Readonly<Record<string, string>>;
}

/** `gh`: the path of the program, or null for plain HTTP with a token. */
export async function createGithubScene(gh: string | null): Promise<GithubScene> {
  const remote = createBareRemote();
  const server = await startGithubServer();
  const repository = server.world.add({ owner: "octo", name: "app", bare: remote.bare.root });
  server.world.tokens.set(TOKEN, { login: "dev" });
  const config = join(remote.folder, "gh");
  mkdirSync(config);
  writeFileSync(join(config, "config.yml"), `http_unix_socket: ${server.socket}\n`);
  const env = { PATH: process.env["PATH"] ?? "", HOME: remote.folder, GH_CONFIG_DIR: config, GH_TOKEN: TOKEN };
  const transport: GithubScene["transport"] = ({ token = TOKEN, timeoutMs = 30_000, host = "github.com" } = {}) =>
    gh === null
      ? createGithubTokenTransport({
          host,
          token,
          timeoutMs,
          root: `${server.url}${host === "github.com" ? "" : "/api/v3"}`,
        })
      : createGhTransport({
          program: gh,
          host,
          timeoutMs,
          env: { ...env, GH_TOKEN: token, GH_ENTERPRISE_TOKEN: token },
        });
  const forge: GithubScene["forge"] = (options = {}) =>
    openGithubForge({
      transport: transport(),
      host: "github.com",
      owner: "octo",
      name: "app",
      pauseMs: 1,
      ...options,
    });
  return {
    ...remote,
    remote,
    server,
    repository,
    env,
    transport,
    forge,
    open: async () => forge(),
    clone: () =>
      cloneForUser(remote, {
        host: "https://github.com",
        path: "octo/app",
        server: server.url,
        login:
          gh !== null
            ? env
            : { GITHUB_TOKEN: TOKEN, GITHUB_SERVER_URL: "https://github.com", GITHUB_API_URL: server.url },
      }),
    async writeComment(on, comment) {
      repository.comments.push({ id: repository.comments.length + 1, on, ...comment });
    },
    async writeReview(number, { author, state, body, commit }) {
      const decided = state === "approved" ? "APPROVED" : "CHANGES_REQUESTED";
      const about = { id: repository.reviews.length + 1, on: number, author, isBot: false, state: decided } as const;
      repository.reviews.push({ ...about, body, commit, at: server.world.now(), remarks: [] });
    },
    async writeChecks(commit, runs) {
      // Half of them are check runs, as a current app writes them; half are statuses, as an older service writes them.
      runs.forEach((run, at) => {
        if (at % 2 === 0 || run.state === "skipped") repository.checkRuns.push(checkRun(commit, run, at));
        else
          repository.statuses.push({
            commit,
            context: run.name,
            state: GITHUB_STATUS[run.state],
            description: run.summary,
          });
      });
    },
    async dispose() {
      await server.dispose();
      remote.dispose();
    },
  };
}

export const TOKEN = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";

const GITHUB_STATUS = { passed: "success", pending: "pending", failed: "failure" } as const;
const CONCLUSION = { passed: "success", failed: "failure", skipped: "skipped", pending: null } as const;

function checkRun(commit: string, run: Parameters<ForgeHarness["writeChecks"]>[1][number], at: number): CheckRunRecord {
  const status = run.state === "pending" ? "in_progress" : "completed";
  const { name, summary } = run;
  return { id: at + 1, commit, name, status, conclusion: CONCLUSION[run.state], summary, app: "some-ci" };
}

/** A loopback GitLab with one project `team/tools/app`, reached in one of the two ways. */
export interface GitlabScene extends ForgeHarness {
  readonly server: GitlabServer;
  readonly project: Project;
  readonly remote: BareRemote;
  /** The environment of a user whose `glab` leads to this server. */
  readonly env: NodeJS.ProcessEnv;
  transport(options?: { readonly token?: string; readonly timeoutMs?: number }): Transport;
  forge(options?: Partial<ServerForgeOptions>): Forge;
  clone(): UserClone;
  dispose(): Promise<void>;
}

/** `glab`: the path of the program, or null for plain HTTP with a token. */
export async function createGitlabScene(glab: string | null): Promise<GitlabScene> {
  const remote = createBareRemote();
  const server = await startGitlabServer();
  const project = server.projects.add({ path: "team/tools/app", bare: remote.bare.root });
  server.projects.tokens.set(GITLAB_TOKEN, { login: "dev" });
  const config = join(remote.folder, "glab");
  mkdirSync(config);
  const host = server.url.replace("http://", "");
  writeFileSync(
    join(config, "config.yml"),
    `hosts:\n  gitlab.com:\n    api_host: ${host}\n    api_protocol: http\n    git_protocol: https\n`,
    { mode: 0o600 },
  );
  const env = {
    PATH: process.env["PATH"] ?? "",
    HOME: remote.folder,
    GLAB_CONFIG_DIR: config,
    GITLAB_TOKEN,
  };
  const transport: GitlabScene["transport"] = ({ token = GITLAB_TOKEN, timeoutMs = 30_000 } = {}) =>
    glab === null
      ? createGitlabTokenTransport({ host: "gitlab.com", token, timeoutMs, root: `${server.url}/api/v4` })
      : createGlabTransport({ program: glab, host: "gitlab.com", timeoutMs, env: { ...env, GITLAB_TOKEN: token } });
  const forge: GitlabScene["forge"] = (options = {}) =>
    openGitlabForge({
      transport: transport(),
      host: "gitlab.com",
      owner: "team/tools",
      name: "app",
      pauseMs: 1,
      ...options,
    });
  return {
    ...remote,
    remote,
    server,
    project,
    env,
    transport,
    forge,
    open: async () => forge(),
    clone: () =>
      cloneForUser(remote, {
        host: "https://gitlab.com",
        path: "team/tools/app",
        server: server.url,
        login:
          glab !== null
            ? env
            : { GITLAB_TOKEN, CI_SERVER_URL: "https://gitlab.com", CI_API_V4_URL: `${server.url}/api/v4` },
      }),
    async writeComment(number, { author, body }) {
      const at = () => ({ id: server.projects.nextNote(), created_at: server.projects.now() });
      const notes = project.issues.find(({ iid }) => iid === number)?.notes ?? [];
      notes.push({ ...at(), body, author: { username: author }, system: false });
      notes.push({ ...at(), body: "changed the description", author: { username: author }, system: true });
    },
    async writeReview(number, { author, state, body, commit }) {
      const request = project.requests.find(({ iid }) => iid === number);
      if (request === undefined) throw new Error(`no merge request ${number}`);
      const note = (text: string, more: Partial<GitlabNote>): void => {
        const at = { id: server.projects.nextNote(), created_at: server.projects.now() };
        request.notes.push({ ...at, body: text, author: { username: author }, system: false, ...more });
      };
      // The remark comes first, on a line of a file; then GitLab adds a note about the decision.
      if (body !== "") note(body, { position: { head_sha: commit, new_path: "b.txt", new_line: 1 } });
      note(state === "approved" ? "approved this merge request" : "requested changes", { system: true });
      if (state === "approved") request.approvers.push(author);
    },
    async writeChecks(commit, runs) {
      for (const { name, state, summary } of runs) {
        const id = project.statuses.length + 1;
        const status = GITLAB_STATUS[state];
        project.statuses.push({ id, commit, name, status, description: summary, isJob: true, allowFailure: false });
      }
    },
    async dispose() {
      await server.dispose();
      remote.dispose();
    },
  };
}

export const GITLAB_TOKEN = "glpat-0123456789abcdefghij";

const GITLAB_STATUS = { passed: "success", pending: "running", failed: "failed", skipped: "skipped" } as const;

/** A local forge on a bare repository in a temporary folder. */
export interface LocalForgeScene extends ForgeHarness {
  readonly bare: TestRepository;
  /** The forge's own folder. */
  readonly directory: string;
  forge(options?: Partial<LocalForgeOptions>): Forge;
  write(path: string, text: string): void;
  dispose(): void;
}

export function createLocalForgeScene(clock?: Clock): LocalForgeScene {
  const remote = createBareRemote();
  const { root } = remote.bare;
  const directory = join(root, "holdfast-forge");
  const write = (path: string, text: string): void => {
    mkdirSync(join(directory, path, ".."), { recursive: true });
    writeFileSync(join(directory, path), text);
  };
  const append = (path: string, item: object): void => {
    const before: unknown = existsSync(join(directory, path))
      ? JSON.parse(readFileSync(join(directory, path), "utf8"))
      : [];
    write(path, JSON.stringify([...(Array.isArray(before) ? before : []), item]));
  };
  const forge = (options = {}): Forge =>
    openLocalForge({ repository: root, ...(clock === undefined ? {} : { clock }), ...options });
  return {
    ...remote,
    directory,
    forge,
    write,
    open: async () => forge(),
    writeComment: async (number, comment) =>
      append(`issues/${number}.comments.json`, { at: "2026-03-01T12:00:00Z", ...comment }),
    writeReview: async (number, review) => append(`pulls/${number}.reviews.json`, review),
    writeChecks: async (commit, runs) => write(`checks/${commit}.json`, JSON.stringify({ runs })),
  };
}

/** A bare repository whose `main` has one commit with `a.txt`, and a clone that pushes to it: the base of every forge under test. */
interface BareRemote extends Pick<ForgeHarness, "push" | "tip" | "isAncestor" | "makeDefault"> {
  readonly bare: TestRepository;
  /** A folder that is removed with it. */
  readonly folder: string;
  dispose(): void;
}

function createBareRemote(): BareRemote {
  const work = createTestRepository();
  work.write("a.txt", "one\n");
  work.git("add", "-A");
  work.git("commit", "-qm", "first");
  const folder = join(work.root, "..");
  const root = join(folder, "bare.git");
  work.git("clone", "-q", "--bare", ".", root);
  work.git("remote", "add", "origin", root);
  const bare = testRepositoryAt(root);
  return {
    bare,
    folder,
    async push({ branch, from, files }) {
      work.git("fetch", "-q", "origin");
      work.git("checkout", "-q", "--detach", `origin/${from ?? branch}`);
      for (const [path, text] of Object.entries(files)) work.write(path, text);
      work.git("add", "-A");
      work.git("commit", "-qm", `${branch}: ${Object.keys(files).join(", ")}`);
      work.git("push", "-q", "origin", `HEAD:refs/heads/${branch}`);
      return work.git("rev-parse", "HEAD").trim();
    },
    tip: async (branch) => {
      const listed = bare.git("for-each-ref", "--format=%(objectname)", `refs/heads/${branch}`).trim();
      return listed === "" ? null : listed;
    },
    isAncestor: async (ancestor, of) => bare.git("merge-base", ancestor, of).trim() === ancestor,
    makeDefault: async (branch) => void bare.git("symbolic-ref", "HEAD", `refs/heads/${branch}`),
    dispose: () => work.dispose(),
  };
}

/** `login` has a PATH if it is the login of a forge's program. Otherwise no such program is on the clone's PATH, and the token is used. */
function cloneForUser(
  { bare, folder }: BareRemote,
  params: {
    readonly host: string;
    readonly path: string;
    readonly server: string;
    readonly login: Readonly<Record<string, string>>;
  },
): UserClone {
  const { host, server, login } = params;
  const [cwd, bin] = [join(folder, "clone"), join(folder, "bin")];
  bare.git("clone", "-q", bare.root, cwd);
  testRepositoryAt(cwd).git("remote", "set-url", "origin", `${host}/${params.path}.git`);
  writeFileSync(
    join(folder, ".gitconfig"),
    `[user]\nname = Ada\nemail = ada@example.invalid\n[url "${server}/"]\ninsteadOf = ${host}/\n`,
  );
  mkdirSync(bin);
  for (const name of ["git", "sh", "sync"]) symlinkSync(findProgram(name) ?? "", join(bin, name));
  symlinkSync(process.execPath, join(bin, "node"));
  return { cwd, env: { PATH: bin, HOME: folder, GIT_CONFIG_NOSYSTEM: "1", ...login } };
}

/** The two ways to reach a forge, for suites that apply to both. If its program is not available, that half is skipped with the reason. */
export function forgeTransports(name: "gh" | "glab"): readonly [WayToForge, WayToForge] {
  const program = findForgeProgram(name);
  const skip = program === null;
  return [
    { name: "a token", program: null, skip: false },
    { name: skip ? `${name} (skipped: it is not installed, and cannot be installed here)` : name, program, skip },
  ];
}

interface WayToForge {
  readonly name: string;
  readonly program: string | null;
  readonly skip: boolean;
}

/** The real program of a forge, which `npm run test:slow` installs if possible. Null: it is not available, and a suite skips its tests. */
function findForgeProgram(name: "gh" | "glab"): string | null {
  return findProgram(name) ?? null;
}

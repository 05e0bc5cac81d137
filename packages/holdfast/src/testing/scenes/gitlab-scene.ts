import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openGitlabForge } from "../../forges/gitlab/gitlab-forge.ts";
import { createGitlabTokenTransport, createGlabTransport } from "../../forges/gitlab/gitlab-transport.ts";
import type { ServerForgeOptions } from "../../forges/server-forge-options.ts";
import type { Transport } from "../../forges/transport.ts";
import type { Forge } from "../../ports/forge.ts";
import { createBareRemote, type BareRemote } from "../bare-remote.ts";
import type { ForgeHarness } from "../forge-contract/harness.ts";
import { startGitlabServer, type GitlabServer } from "../gitlab-server/gitlab-server.ts";
import type { GitlabNote, Project } from "../gitlab-server/projects.ts";

/** A loopback GitLab with one project `team/tools/app`, reached by one of the two ways. */
export interface GitlabScene extends ForgeHarness {
  readonly server: GitlabServer;
  readonly project: Project;
  readonly remote: BareRemote;
  /** The environment of a user whose `glab` leads to this server. */
  readonly env: NodeJS.ProcessEnv;
  transport(options?: { readonly token?: string; readonly timeoutMs?: number }): Transport;
  forge(options?: Partial<ServerForgeOptions>): Forge;
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
    PATH: process.env["PATH"],
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
    async writeReview(number, { author, state, body, commit }) {
      const request = project.requests.find(({ iid }) => iid === number);
      if (request === undefined) throw new Error(`no merge request ${number}`);
      const note = (text: string, more: Partial<GitlabNote>): void => {
        const at = { id: server.projects.nextNote(), created_at: server.projects.now() };
        request.notes.push({ ...at, body: text, author: { username: author }, system: false, ...more });
      };
      // What is said comes first, on a line of a file; then GitLab notes what was decided.
      if (body !== "") note(body, { position: { head_sha: commit, new_path: "b.txt", new_line: 1 } });
      note(state === "approved" ? "approved this merge request" : "requested changes", { system: true });
      if (state === "approved") request.approvers.push(author);
    },
    async writeChecks(commit, runs) {
      for (const { name, state, summary } of runs) {
        const id = project.statuses.length + 1;
        const status = STATUS[state];
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

const STATUS = { passed: "success", pending: "running", failed: "failed", skipped: "skipped" } as const;

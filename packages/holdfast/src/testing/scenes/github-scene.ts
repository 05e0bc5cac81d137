import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openGithubForge } from "../../forges/github/github-forge.ts";
import { createGhTransport, createTokenTransport } from "../../forges/github/github-transport.ts";
import type { ServerForgeOptions } from "../../forges/server-forge-options.ts";
import type { Transport } from "../../forges/transport.ts";
import type { Forge } from "../../ports/forge.ts";
import { createBareRemote, type BareRemote } from "../bare-remote.ts";
import type { ForgeHarness } from "../forge-contract/harness.ts";
import { startGithubServer, type GithubServer } from "../github-server/github-server.ts";
import type { CheckRunRecord, Repository } from "../github-server/world.ts";

/** A loopback GitHub with one repository `octo/app`, reached by one of the two ways. */
export interface GithubScene extends ForgeHarness {
  readonly server: GithubServer;
  readonly repository: Repository;
  readonly remote: BareRemote;
  /** The environment of a user whose `gh` and token lead to this server. */
  readonly env: NodeJS.ProcessEnv;
  transport(options?: { readonly token?: string; readonly timeoutMs?: number; readonly host?: string }): Transport;
  forge(options?: Partial<ServerForgeOptions>): Forge;
  dispose(): Promise<void>;
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
  const env = { PATH: process.env["PATH"], HOME: remote.folder, GH_CONFIG_DIR: config, GH_TOKEN: TOKEN };
  const transport: GithubScene["transport"] = ({ token = TOKEN, timeoutMs = 30_000, host = "github.com" } = {}) =>
    gh === null
      ? createTokenTransport({ host, token, timeoutMs, root: `${server.url}${host === "github.com" ? "" : "/api/v3"}` })
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
    async writeReview(number, { author, state, body, commit }) {
      const decided = state === "approved" ? "APPROVED" : "CHANGES_REQUESTED";
      const about = { id: repository.reviews.length + 1, on: number, author, isBot: false, state: decided } as const;
      repository.reviews.push({ ...about, body, commit, at: server.world.now(), remarks: [] });
    },
    async writeChecks(commit, runs) {
      // Half of them as an app of today writes them, half as an older service does.
      runs.forEach((run, at) => {
        if (at % 2 === 0 || run.state === "skipped") repository.checkRuns.push(checkRun(commit, run, at));
        else
          repository.statuses.push({ commit, context: run.name, state: STATUS[run.state], description: run.summary });
      });
    },
    async dispose() {
      await server.dispose();
      remote.dispose();
    },
  };
}

export const TOKEN = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";

const STATUS = { passed: "success", pending: "pending", failed: "failure" } as const;
const CONCLUSION = { passed: "success", failed: "failure", skipped: "skipped", pending: null } as const;

function checkRun(commit: string, run: Parameters<ForgeHarness["writeChecks"]>[1][number], at: number): CheckRunRecord {
  const status = run.state === "pending" ? "in_progress" : "completed";
  const { name, summary } = run;
  return { id: at + 1, commit, name, status, conclusion: CONCLUSION[run.state], summary, app: "some-ci" };
}

// A team in a scene: PostgreSQL, a git remote over http with a local forge and issues, and machines with workers. The agent is a program that
// writes down each of its calls outside of every repository.

import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import type { BuiltCommand } from "@holdfast/test-support/built-command";
import { type HttpRemote, startHttpRemote } from "@holdfast/test-support/git/http-remote";
import { type OwnPostgresServer, startPostgres } from "@holdfast/test-support/postgres-server";
import { gitIn } from "../../src/cli/commands/demo-repository.ts";
import { type Machine, type Network, clockLibrary, createNetwork } from "./machines.ts";

export interface TeamScene {
  readonly directory: string;
  readonly network: Network;
  readonly postgres: OwnPostgresServer;
  readonly schema: string;
  /** The bare repository. */
  readonly remote: string;
  readonly machines: readonly Machine[];
  readonly runs: readonly string[];
  startWorker(machine: Machine): Promise<void>;
  /** The command on the computer of the test, which is on both cables. */
  json(...args: readonly string[]): Promise<ReturnType<typeof JSON.parse>>;
  /** The runs for which an agent works on this machine now. */
  worksFor(machine: Machine): readonly string[];
  /** Lines of the agents' own log. */
  agentCalls(): readonly AgentCall[];
  /** Updates of branches, in the order in which the remote accepted them. */
  pushes(): readonly { readonly from: string; readonly to: string; readonly ref: string }[];
  git(...args: readonly string[]): Promise<string>;
}

export interface AgentCall {
  readonly what: "begin" | "end";
  readonly run: string;
  readonly role: string;
  readonly iteration: string;
  readonly id: string;
}

export async function beginTeam(params: {
  readonly directory: string;
  readonly holdfast: BuiltCommand;
  readonly runs: number;
  readonly slots: number;
  /** How long an agent works. */
  readonly seconds: { readonly impl: number; readonly review: number };
  /** null: the times of the product. */
  readonly timings: Readonly<Record<string, number>> | null;
  readonly later: (stop: () => Promise<void>) => void;
}): Promise<TeamScene> {
  const { directory, holdfast, later, slots } = params;
  const network = createNetwork();
  later(() => network.remove());
  const postgres = await startListening(network.address.database, later);
  const schema = "team";
  const url = `postgres://holdfast@${network.address.database}:5432/postgres?schema=${schema}`;
  const [remote, mine, home] = [join(directory, "shop.git"), join(directory, "mine"), join(directory, "home")];
  mkdirSync(home);
  const env = { PATH: process.env["PATH"] ?? "", HOME: home, GIT_CONFIG_NOSYSTEM: "1", ...PERSON };
  const git = gitIn(directory, env);
  await git("init", "-q", "--bare", "-b", "main", remote);
  writeFileSync(join(remote, "hooks/post-receive"), `#!/bin/sh\ncat >>${directory}/pushes.log\n`);
  chmodSync(join(remote, "hooks/post-receive"), 0o755);
  const served: HttpRemote = await startHttpRemote(remote, network.address.git);
  later(async () => await served[Symbol.asyncDispose]());
  await git("clone", "-q", remote, mine);
  const config = { files: { remote: "origin" }, forge: { kind: "local", path: remote } };
  writeFileSync(join(mine, "holdfast.config.yaml"), JSON.stringify(config));
  await git("-C", mine, "add", ".");
  await git("-C", mine, "commit", "-qm", "config");
  await git("-C", mine, "push", "-q", "origin", "HEAD:main");
  await git("-C", mine, "remote", "set-url", "origin", served.url);
  const agent = join(directory, "agent.sh");
  writeFileSync(agent, agentScript(join(directory, "agents.log"), params.seconds));
  mkdirSync(join(remote, "holdfast-forge/issues"), { recursive: true });
  const numbers = Array.from({ length: params.runs }, (_, i) => i + 1);
  for (const number of numbers)
    writeFileSync(join(remote, `holdfast-forge/issues/${number}.md`), `---\ntitle: Task ${number}\n---\n`);
  const dispatch: Readonly<Record<string, string>> =
    params.timings === null ? {} : { HOLDFAST_DISPATCH_TIMINGS: JSON.stringify(params.timings) };
  const more = { HOLDFAST_STORE: url, HOLDFAST_TRUST: "1", ...PERSON, ...dispatch };
  const json: TeamScene["json"] = async (...args) => {
    const done = await holdfast.run(["--json", ...args], { cwd: mine, env: { ...env, ...more } });
    if (done.status !== 0) throw new Error(`holdfast ${args.join(" ")} ended with ${done.status}: ${done.stderr}`);
    return JSON.parse(done.stdout);
  };
  const submit = (number: number) => json("submit", String(number), "--agent", `command:sh ${agent}`);
  // The first one creates the store.
  for (const few of [numbers.slice(0, 1), ...groupsOf(numbers.slice(1), 4)]) await Promise.all(few.map(submit));
  const command = [process.execPath, holdfast.entry, "--json", "worker", "--join", "--here", "--slots", String(slots)];
  const machines: Machine[] = [];
  for (const name of ["ada", "bob", "cyd"]) {
    const machine = await network.machine(name, { directory, wrongClock: name === "cyd" && clockLibrary() !== null });
    await git("clone", "-q", served.url, machine.clone);
    machines.push(machine);
  }
  const linesOf = (name: string): readonly string[] => {
    const path = join(directory, name);
    return existsSync(path) ? readFileSync(path, "utf8").trim().split("\n") : [];
  };
  return {
    directory,
    network,
    postgres,
    schema,
    remote,
    machines,
    runs: numbers.map((number) => `issue-${number}`),
    startWorker: (machine) => machine.startWorker(command, more),
    json,
    worksFor: (machine) => machine.foldersOf(agent).map((folder) => basename(folder)),
    agentCalls: () =>
      linesOf("agents.log").map((line) => {
        const [what = "", issue = "", role = "", iteration = "", id = ""] = line.split(" ");
        return { what: what === "end" ? "end" : "begin", run: `issue-${issue}`, role, iteration, id };
      }),
    pushes: () =>
      linesOf("pushes.log").map((line) => {
        const [from = "", to = "", ref = ""] = line.split(" ");
        return { from, to, ref };
      }),
    git: gitIn(directory, { ...env, GIT_DIR: remote }),
  };
}

function groupsOf<T>(list: readonly T[], size: number): readonly (readonly T[])[] {
  return Array.from({ length: Math.ceil(list.length / size) }, (_, at) => list.slice(at * size, (at + 1) * size));
}

const PERSON = {
  GIT_AUTHOR_NAME: "A",
  GIT_AUTHOR_EMAIL: "a@example.com",
  GIT_COMMITTER_NAME: "A",
  GIT_COMMITTER_EMAIL: "a@example.com",
};

/** A server of its own, because it is killed, on the cable of the machines. */
async function startListening(address: string, later: (stop: () => Promise<void>) => void): Promise<OwnPostgresServer> {
  return await startPostgres(later, {
    settings: { listen_addresses: address },
    access: [`host all all ${address}/24 trust`],
  });
}

/** Appends one line to the file of its issue, and works for a while. What it does twice is in the file twice. */
function agentScript(log: string, { impl, review }: { readonly impl: number; readonly review: number }): string {
  const scores = { faithful: 97, style: 94, docs: 92, cornerCases: 93 };
  const answer = JSON.stringify({ scores, overall_score: 94, findings: [], suggestions: [] });
  return `cat >/dev/null
id=$(cat /proc/sys/kernel/random/uuid)
# The issue's number is in the name of the worktree.
issue=\${PWD##*issue-}
call="$issue $HOLDFAST_ROLE $HOLDFAST_ITERATION $id"
echo "begin $call" >>${log}
if [ "$HOLDFAST_ROLE" = impl ]; then
  echo "$HOLDFAST_ITERATION $id" >>work.txt
  sleep ${impl}
  echo "Task $issue" >"$HOLDFAST_COMMIT_REPORT"
  echo "[feat][#$issue] Task $issue" >"$HOLDFAST_FINALIZE_FILE"
  echo Done.
else
  sleep ${review}
  echo '${answer}'
fi
echo "end $call" >>${log}
`;
}

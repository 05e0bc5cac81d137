import { existsSync } from "node:fs";
import { chmod, cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { build } from "esbuild";
import { openLocalForge } from "@holdfast/forges/local";
import { type BenchGit, benchGit } from "../bench/bench-git.ts";
import { putFiles } from "../bench/put-files.ts";
import { scratchFolder } from "../faults/harness/scratch.ts";
import type { Scenario } from "./scenarios.ts";

const PACKAGES = join(import.meta.dirname, "../../..");

/** A remote with an issue, a clone of it and an agent's script, all inside one folder. */
export interface Scene {
  readonly root: string;
  readonly clone: string;
  readonly remote: string;
  readonly worktree: string;
  /** `provider:model`. */
  readonly agent: string;
  readonly env: Readonly<Record<string, string>>;
  readonly git: BenchGit<"clone" | "remote" | "worktree">;
  /** One line `<stage attempt>/<step> <attempt>` for each agent process, written by the process itself. */
  calls(): Promise<readonly string[]>;
  /** One line for each update of a run's branch that the remote took. */
  pushes(): Promise<readonly string[]>;
  remove(): Promise<void>;
}

/** The worker and the programs that it starts, in one folder: what starts quickest. */
export async function buildWorker(): Promise<string> {
  const folder = scratchFolder("worker");
  const bundle = async (entry: string, name: string): Promise<void> => {
    await build({
      entryPoints: [entry],
      outfile: join(folder, `${name}.cjs`),
      bundle: true,
      format: "cjs",
      platform: "node",
      external: ["pg", "@photostructure/sqlite"],
      logLevel: "error",
      define: { "import.meta.dirname": "__dirname", "import.meta.filename": "__filename" },
    });
  };
  await Promise.all([
    bundle(join(import.meta.dirname, "worker.ts"), "worker"),
    bundle(join(PACKAGES, "agents/src/script-runner.ts"), "script-runner"),
    bundle(join(PACKAGES, "workflows/src/node-parser.ts"), "node-parser"),
    bundle(join(PACKAGES, "platform/src/watchdog-process.ts"), "watchdog-process"),
    cp(join(PACKAGES, "workflows/src"), folder, { recursive: true, filter: (path) => !path.endsWith(".ts") }),
    writeFile(join(folder, "count-calls.cjs"), COUNT_CALLS),
  ]);
  return join(folder, "worker.cjs");
}

/** Made once for a scenario; `copy` is a folder copied and one line changed. */
export async function prepareScene(
  scenario: Scenario,
  worker: string,
): Promise<{ readonly copy: () => Promise<Scene>; readonly remove: () => Promise<void> }> {
  const root = scratchFolder("template");
  const scene = placeAt(root, worker);
  const { git, clone, remote } = scene;
  await mkdir(clone);
  await git("clone", "init", "-q", "--bare", "-b", "main", remote);
  await git("clone", "init", "-q", "-b", "main");
  await git("clone", "config", "user.name", "A");
  await git("clone", "config", "user.email", "a@example.org");
  await git("remote", "config", "core.logAllRefUpdates", "true");
  await commit(scene, { "readme.md": "hello\n" });
  await git("clone", "push", "-q", remote, "main");
  if (scenario.moved !== null) {
    const { path, text } = scenario.moved;
    await commit(scene, { [path]: text });
    await git("clone", "push", "-q", remote, "main:refs/moved/main");
    await git("clone", "reset", "-q", "--hard", "HEAD~1");
  }
  await git("clone", "remote", "add", "origin", PLACEHOLDER);
  const forge = openLocalForge({ repository: remote });
  await forge.createIssue({ title: "Add a greeting", body: "Say hello.", labels: [], key: "endurance" });
  if (scenario.ci !== null) await writeFile(join(forge.location, "forge.yaml"), `ci: ${JSON.stringify(scenario.ci)}\n`);
  for (const [name, text] of Object.entries(HOOKS)) {
    const path = join(remote, "hooks", name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
    await chmod(path, 0o755);
  }
  await writeFile(join(root, "script.json"), JSON.stringify({ answers: scenario.answers }));
  return {
    async copy() {
      const made = placeAt(scratchFolder("place"), worker);
      await cp(root, made.root, { recursive: true });
      const config = join(made.clone, ".git/config");
      await writeFile(config, (await readFile(config, "utf8")).replace(PLACEHOLDER, made.remote));
      return made;
    },
    remove: () => scene.remove(),
  };
}

/** Git's folder first: each ended starts hundreds of git processes, and each would search all folders before it. */
const PATH = [
  ...(process.env["PATH"] ?? "").split(":").filter((folder) => existsSync(join(folder, "git"))),
  dirname(process.execPath),
  "/usr/bin",
  "/bin",
].join(":");

const PLACEHOLDER = "/the-remote";

/**
 * Hooks run in the remote. The first kills the process that asked to be killed in the middle of a push, and then
 * pauses.
 */
const HOOKS = {
  "pre-receive": `#!/bin/sh
[ -e ../die-in-push ] || exit 0
pid=$(cat ../die-in-push)
rm ../die-in-push
kill -9 "$pid"
sleep 0.2
`,
  "post-receive": "#!/bin/sh\ngrep -E ' refs/heads/(holdfast|feature)/' >> ../pushes\nexit 0\n",
};

/** Loaded into every Node process below the worker; only the agent's own writes. */
const COUNT_CALLS = `"use strict";
if (/script-runner/.test(process.argv[1] ?? "")) {
  const { HOLDFAST_MARK = "", HOLDFAST_ATTEMPT, ENDURANCE_CALLS } = process.env;
  const call = HOLDFAST_MARK.split("/").slice(2).join("/");
  require("node:fs").appendFileSync(ENDURANCE_CALLS, call + " " + HOLDFAST_ATTEMPT + "\\n");
}
`;

function placeAt(root: string, worker: string): Scene {
  const at = {
    clone: join(root, "clone"),
    remote: join(root, "remote.git"),
    worktree: join(root, "clone-worktrees/issue-1"),
  };
  const env = {
    PATH,
    HOME: root,
    LANG: "C.UTF-8",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_GLOBAL: join(root, "no-git-config"),
    NODE_OPTIONS: `--require ${join(dirname(worker), "count-calls.cjs")}`,
    NODE_COMPILE_CACHE: join(dirname(worker), "compile-cache"),
    ENDURANCE_CALLS: join(root, "calls"),
    // Agents get an allow-listed environment; a variable of the user's own reaches them by name.
    HOLDFAST_AGENT_ENV: "ENDURANCE_CALLS,NODE_COMPILE_CACHE",
  };
  const lines = async (name: string): Promise<readonly string[]> => {
    const text = await readFile(join(root, name), "utf8").catch(() => "");
    return text.split("\n").slice(0, -1);
  };
  return {
    root,
    ...at,
    agent: `scripted:${join(root, "script.json")}`,
    env,
    git: benchGit((where) => at[where], env),
    calls: () => lines("calls"),
    pushes: () => lines("pushes"),
    remove: () => rm(root, { recursive: true, force: true }),
  };
}

async function commit({ clone, git }: Scene, files: Readonly<Record<string, string>>): Promise<void> {
  await putFiles(clone, files);
  await git("clone", "add", "-A");
  await git("clone", "commit", "-qm", "change");
}

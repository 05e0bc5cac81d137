import assert from "node:assert/strict";
import { existsSync, readFileSync, readlinkSync, realpathSync } from "node:fs";
import {
  appears,
  NEEDS_PROC,
  prepareCall,
  processesOf,
  type AgentCase,
  type AgentHarness,
  type Call,
} from "./harness.ts";

/** None of them is the login of an agent that the suites run: those have keys of their own, or none. */
const TOKENS: readonly string[] = [
  "GITHUB_TOKEN",
  "GH_TOKEN",
  "GITLAB_TOKEN",
  "CI_JOB_TOKEN",
  "NPM_TOKEN",
  "NODE_AUTH_TOKEN",
  "CARGO_REGISTRY_TOKEN",
  "AWS_ACCESS_KEY_ID",
  "AWS_SECRET_ACCESS_KEY",
  "AWS_SESSION_TOKEN",
  "AZURE_CLIENT_SECRET",
  "CLOUDFLARE_API_TOKEN",
  "GOOGLE_APPLICATION_CREDENTIALS",
  "SSH_AUTH_SOCK",
  "VAULT_TOKEN",
  "DATABASE_PASSWORD",
];

const OUTER: Readonly<Record<string, string>> = {
  GIT_DIR: "/somewhere/else",
  GIT_INDEX_FILE: "/somewhere/index",
  HOLDFAST_STORE: "/somewhere/store",
  HOLDFAST_MARK: "outer/1/step",
  LC_CONTRACT: "kept",
  https_proxy: "http://127.0.0.1:9",
  NO_PROXY: "127.0.0.1,localhost",
  CONTRACT_OTHER: "not passed",
  ...Object.fromEntries(TOKENS.map((name) => [name, `planted-${name}`])),
};

export const environmentCases: readonly AgentCase[] = [
  {
    name: "the child has the allowed part of our environment, without any token, plus the task's, its facts and its mark",
    skip: NEEDS_PROC,
    async run(harness) {
      const before = Object.keys(OUTER).map((name) => [name, process.env[name]] as const);
      Object.assign(process.env, OUTER);
      try {
        const model = await harness.behave({ write: { path: "up", text: "" }, hang: true });
        const env = { HOLDFAST_ISSUE: "42", CONTRACT_OWN: "own", HOLDFAST_MARK: "stolen" };
        const call = prepareCall(harness, { model, env, iteration: 3, attempt: 2, role: "review" });
        await whileRunning(harness, call, () => {
          const pids = processesOf(call.task.mark);
          assert.notDeepEqual(pids, [], "no process carries the mark");
          const checked = pids.filter((pid) => checkProcess({ pid, cwd: harness.cwd, mark: call.task.mark }));
          assert.notDeepEqual(checked, [], "every process has ended");
        });
      } finally {
        for (const [name, value] of before) {
          if (value === undefined) delete process.env[name];
          else process.env[name] = value;
        }
      }
    },
  },
];

/** What goes wrong in between must not leave the agent hanging. */
async function whileRunning(harness: AgentHarness, call: Call, look: () => void): Promise<void> {
  const running = harness.agent.run(call.task);
  try {
    await appears(harness, "up");
    look();
  } finally {
    call.abort();
    await running;
  }
}

/** False: it has ended in between, as small helpers of an agent do. */
function checkProcess(params: { readonly pid: number; readonly cwd: string; readonly mark: string }): boolean {
  if (!existsSync(`/proc/${params.pid}/environ`)) return false;
  const text = readFileSync(`/proc/${params.pid}/environ`, "utf8");
  if (text === "") return false;
  const variables = new Map(
    text.split("\0").map((entry) => [entry.split("=")[0] ?? "", entry.slice(entry.indexOf("=") + 1)]),
  );
  for (const name of ["GIT_DIR", "GIT_INDEX_FILE", "HOLDFAST_STORE", "CONTRACT_OTHER", ...TOKENS])
    assert.equal(variables.has(name), false, name);
  assert.equal(text.includes("planted-"), false, "a planted token is in the environment under another name");
  const expected = {
    LC_CONTRACT: "kept",
    https_proxy: "http://127.0.0.1:9",
    CONTRACT_OWN: "own",
    HOLDFAST_ISSUE: "42",
    HOLDFAST_ROLE: "review",
    HOLDFAST_ITERATION: "3",
    HOLDFAST_ATTEMPT: "2",
    HOLDFAST_MARK: params.mark,
  };
  for (const [name, value] of Object.entries(expected)) assert.equal(variables.get(name), value, name);
  assert.equal(readlinkSync(`/proc/${params.pid}/cwd`), realpathSync(params.cwd));
  return true;
}

import { describe, expect, test } from "vitest";
import { agentVariables, commandVariables, namedInEnvironment, parseEnvironmentNames } from "./agent-environment.ts";
import { AGENT_NAMES } from "./agent.ts";

const PLAIN = {
  PATH: "/bin",
  HOME: "/home/me",
  LANG: "C.UTF-8",
  LC_ALL: "C",
  TERM: "xterm",
  XDG_CONFIG_HOME: "/home/me/.config",
  HTTPS_PROXY: "http://proxy:8080",
  no_proxy: "localhost",
  NODE_EXTRA_CA_CERTS: "/etc/ca.pem",
  SSL_CERT_FILE: "/etc/ssl/cert.pem",
  JAVA_HOME: "/opt/java",
  CARGO_HOME: "/home/me/.cargo",
};

const CREDENTIALS = {
  GITHUB_TOKEN: "g1",
  GH_TOKEN: "g2",
  GITLAB_TOKEN: "g3",
  AWS_ACCESS_KEY_ID: "a1",
  AWS_SECRET_ACCESS_KEY: "a2",
  GOOGLE_APPLICATION_CREDENTIALS: "/home/me/key.json",
  AZURE_CLIENT_SECRET: "z1",
  NPM_TOKEN: "n1",
  CARGO_REGISTRY_TOKEN: "c1",
  SSH_AUTH_SOCK: "/run/agent.sock",
};

const MODEL_KEYS = { ANTHROPIC_API_KEY: "k1", OPENAI_API_KEY: "k2", GEMINI_API_KEY: "k3" };
const ALL = {
  ...PLAIN,
  ...CREDENTIALS,
  ...MODEL_KEYS,
  MY_APP: "x",
  DATABASE_URL: "y",
  GIT_DIR: "z",
  HOLDFAST_STORE: "s",
};

function passed(agent: string, more: { variables?: Record<string, string>; model?: string; named?: string[] } = {}) {
  const variables = { ...ALL, ...more.variables };
  return agentVariables({ variables, agent, model: more.model ?? null, named: more.named ?? [] });
}

describe("an agent's environment", () => {
  test.for([...AGENT_NAMES])("%s: required variables pass; credentials and unknown variables do not", (agent) => {
    const variables = passed(agent, { variables: { COPILOT_GITHUB_TOKEN: "its own" } });
    expect(variables).toMatchObject(PLAIN);
    for (const name of [...Object.keys(CREDENTIALS), "MY_APP", "DATABASE_URL", "GIT_DIR", "HOLDFAST_STORE"])
      expect(variables).not.toHaveProperty(name);
  });

  test.for([
    ["claude", ["ANTHROPIC_API_KEY"]],
    ["codex", ["OPENAI_API_KEY"]],
    ["gemini", ["GEMINI_API_KEY"]],
    ["opencode", Object.keys(MODEL_KEYS)],
    ["command", Object.keys(MODEL_KEYS)],
    ["scripted", []],
  ] as readonly (readonly [string, readonly string[]])[])("%s has the keys of its own models: %s", ([agent, keys]) => {
    const variables = passed(agent);
    for (const name of Object.keys(MODEL_KEYS)) expect(name in variables).toBe(keys.includes(name));
  });

  test("a token passes where it is the agent's login", () => {
    expect(passed("copilot")).toMatchObject({ GH_TOKEN: "g2" });
    expect(passed("copilot")).not.toHaveProperty("GITHUB_TOKEN");
    expect(passed("copilot", { variables: { COPILOT_OFFLINE: "true" } })).not.toHaveProperty("GH_TOKEN");
    const bedrock = passed("claude", { variables: { CLAUDE_CODE_USE_BEDROCK: "1" } });
    expect(bedrock).toMatchObject({ AWS_ACCESS_KEY_ID: "a1", AWS_SECRET_ACCESS_KEY: "a2" });
    expect(bedrock).not.toHaveProperty("GITHUB_TOKEN");
    expect(passed("claude", { variables: { CLAUDE_CODE_USE_BEDROCK: "0" } })).not.toHaveProperty("AWS_ACCESS_KEY_ID");
    expect(passed("claude", { variables: { CLAUDE_CODE_USE_VERTEX: "1" } })).toHaveProperty(
      "GOOGLE_APPLICATION_CREDENTIALS",
    );
    expect(passed("gemini", { variables: { GOOGLE_GENAI_USE_VERTEXAI: "true" } })).toHaveProperty(
      "GOOGLE_APPLICATION_CREDENTIALS",
    );
    expect(passed("opencode", { model: "amazon-bedrock/some-model" })).toHaveProperty("AWS_SECRET_ACCESS_KEY");
    expect(passed("pi", { model: "github-copilot/some-model" })).toHaveProperty("GITHUB_TOKEN");
    expect(passed("acp", { model: "npx copilot --acp" })).toHaveProperty("GH_TOKEN");
  });

  test("variables that the user lists pass, by name or by prefix", () => {
    expect(passed("scripted", { named: ["GITHUB_TOKEN", "MY_*"] })).toMatchObject({ GITHUB_TOKEN: "g1", MY_APP: "x" });
    expect(passed("scripted", { named: ["GIT_*"] })).not.toHaveProperty("GIT_DIR");
  });

  test("its settings can name a login", () => {
    const variables = { ...ALL, MY_KEY: "k" };
    expect(agentVariables({ variables, agent: "codex", model: null, named: [], login: ["MY_KEY"] })).toHaveProperty(
      "MY_KEY",
    );
  });
});

test("a gate has the user's environment without credentials", () => {
  const variables = commandVariables({ variables: ALL, named: ["NPM_TOKEN"] });
  expect(variables).toMatchObject({ ...PLAIN, ...MODEL_KEYS, MY_APP: "x", DATABASE_URL: "y", NPM_TOKEN: "n1" });
  for (const name of Object.keys(CREDENTIALS).filter((one) => one !== "NPM_TOKEN"))
    expect(variables).not.toHaveProperty(name);
});

test("names and prefixes are accepted; those of git and Holdfast are refused", () => {
  expect(parseEnvironmentNames(["A", "B_*"])).toEqual(["A", "B_*"]);
  for (const bad of ["A", ["*"], ["A=1"], ["a b"], [1], ["GIT_DIR"], ["HOLDFAST_MARK"]])
    expect(parseEnvironmentNames(bad)).toBeUndefined();
  expect(namedInEnvironment({ HOLDFAST_AGENT_ENV: "A, B_*" })).toEqual(["A", "B_*"]);
  expect(namedInEnvironment({})).toBeUndefined();
  expect(() => namedInEnvironment({ HOLDFAST_AGENT_ENV: "a=b" })).toThrow(/HOLDFAST_AGENT_ENV/);
});

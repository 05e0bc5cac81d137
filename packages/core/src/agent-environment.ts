// Decides which variables of the user's environment reach a child process. Pure: the caller passes the environment and
// gets the allowed part.
//
// - Agents get an allow-list: what programs need to run (GENERAL), the agent's settings and login (RULES), and what the
//   user names.
// - Commands that the user configured (gates, checks) run code that an agent wrote. They get the user's environment
//   without credentials of forges, clouds and package registries.
import { usageError } from "@holdfast/platform/error";
import { isSecretName } from "./known-secrets.ts";

export type Variables = Readonly<Record<string, string | undefined>>;

export interface AgentEnvironmentParams {
  readonly variables: Variables;
  /** The part of `provider:model` before the colon. */
  readonly agent: string;
  /** The part after the colon: a model, or the command line of a `command` or `acp` agent. */
  readonly model: string | null;
  /** Additional arguments that the user configured for the program. */
  readonly args?: readonly string[];
  /** Names or `PREFIX_*` patterns that the user passes to every agent (`agents.env`). */
  readonly named: readonly string[];
  /** Names that the agent's settings file gives as its login. */
  readonly login?: readonly string[];
}

export function agentVariables(params: AgentEnvironmentParams): Record<string, string> {
  const own = [...(RULES[params.agent]?.(params) ?? []), ...(params.login ?? []), ...params.named];
  return pick(params.variables, (name) => isGeneral(name) || matchesAny(name, own));
}

/** Variables for gates, checks and other commands that the user configured. */
export function commandVariables(params: {
  readonly variables: Variables;
  readonly named: readonly string[];
}): Record<string, string> {
  return pick(params.variables, (name) => !isCredential(name) || matchesAny(name, params.named));
}

/**
 * Accepts names, and prefixes of at least one character followed by `*`. undefined: the list is invalid. Variables of
 * git and Holdfast are never passed.
 */
export function parseEnvironmentNames(value: unknown): readonly string[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const names = value.filter((name): name is string => typeof name === "string" && NAME.test(name));
  return names.length === value.length && !names.some((name) => OURS.test(name)) ? names : undefined;
}

/** Parses HOLDFAST_AGENT_ENV, a list of names separated by commas. undefined: it is not set. */
export function namedInEnvironment(variables: Variables): readonly string[] | undefined {
  const text = variables["HOLDFAST_AGENT_ENV"];
  if (text === undefined || text === "") return undefined;
  const names = parseEnvironmentNames(text.split(",").map((name) => name.trim()));
  if (names !== undefined) return names;
  throw usageError(
    "HOLDFAST_AGENT_ENV does not hold names of variables",
    "Give names or prefixes, separated by commas: HOLDFAST_AGENT_ENV=DATABASE_URL,MYAPP_*. GIT_* and HOLDFAST_* are never passed.",
  );
}

const NAME = /^[A-Za-z_][A-Za-z0-9_]*\*?$/;
const OURS = /^(?:GIT|HOLDFAST)_/i;

function pick(variables: Variables, mayPass: (name: string) => boolean): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const [name, value] of Object.entries(variables))
    if (value !== undefined && mayPass(name) && !OURS.test(name)) passed[name] = value;
  return passed;
}

function matchesAny(name: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => matches(name, pattern));
}

function matches(name: string, pattern: string): boolean {
  return pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}

/** A prefix never admits a credential: CARGO_HOME is passed, CARGO_REGISTRY_TOKEN is not. */
function isGeneral(name: string): boolean {
  const upper = name.toUpperCase();
  return GENERAL.some((pattern) => matches(upper, pattern) && !isSecretName(name) && !isCredential(name));
}

/** Compared in upper case, because proxy variables are written in both cases. */
const GENERAL: readonly string[] = words(
  // User, host and directories.
  "PATH HOME USER LOGNAME SHELL PWD HOSTNAME TMPDIR TMP TEMP XDG_*",
  // Language, time, terminal.
  "LANG LANGUAGE LC_* TZ TZDIR TERM TERM_* TERMINFO TERMINFO_DIRS COLORTERM COLUMNS",
  "LINES NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE EDITOR VISUAL PAGER LESS MANPATH",
  "DISPLAY WAYLAND_DISPLAY CI DEBUG UMASK",
  // Many agents keep their login in the keyring of the desktop.
  "DBUS_SESSION_BUS_ADDRESS SECURITYSESSIONID __CF_USER_TEXT_ENCODING",
  // Proxies and certificates.
  "HTTP_PROXY HTTPS_PROXY ALL_PROXY FTP_PROXY NO_PROXY NODE_EXTRA_CA_CERTS NODE_USE_SYSTEM_CA",
  "NODE_TLS_REJECT_UNAUTHORIZED NODE_USE_ENV_PROXY SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE",
  "CURL_CA_BUNDLE CURL_HOME GLOBAL_AGENT_*",
  // Tool chains that builds and tests use.
  "NODE_OPTIONS NODE_PATH NODE_ENV NVM_* FNM_* VOLTA_* N_PREFIX PNPM_HOME BUN_INSTALL",
  "COREPACK_* NPM_CONFIG_REGISTRY NPM_CONFIG_CACHE NPM_CONFIG_PREFIX DENO_DIR DENO_INSTALL",
  "PYTHON* PYENV* VIRTUAL_ENV* CONDA_* PIP_* POETRY_* PIPX_* UV_* JUPYTER_*",
  "JAVA_HOME JDK_* JAVA_TOOL_OPTIONS MAVEN_* M2_HOME GRADLE_* SBT_* KOTLIN_HOME ANDROID_*",
  "GOPATH GOROOT GOBIN GOPROXY GOFLAGS GOCACHE GOMODCACHE GOPRIVATE GOTOOLCHAIN CGO_*",
  "CARGO_* RUSTUP_* RUSTFLAGS RUST_* RUSTC* SCCACHE_* GEM_* RBENV_* RUBY* BUNDLE_*",
  "CC CXX CPP LD AR CFLAGS CXXFLAGS CPPFLAGS LDFLAGS MAKEFLAGS MAKELEVEL CMAKE_*",
  "PKG_CONFIG_PATH LIBRARY_PATH LD_LIBRARY_PATH LD_PRELOAD C_INCLUDE_PATH CPATH DYLD_*",
  "DOTNET_* NUGET_PACKAGES COMPOSER_HOME PHPENV_* ERL_* ELIXIR_* MIX_* OPAM* STACK_ROOT",
  "HOMEBREW_* ASDF_* MISE_* NIX_* SDKMAN_* PLAYWRIGHT_* PUPPETEER_* CYPRESS_* DOCKER_HOST",
  // Windows.
  "SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT APPDATA LOCALAPPDATA PROGRAMDATA",
  "USERPROFILE USERNAME HOMEDRIVE HOMEPATH PROGRAMFILES PROCESSOR_ARCHITECTURE NUMBER_OF_PROCESSORS",
);

/** Keys of model providers, for agents that can use any provider. */
const MODEL_KEYS: readonly string[] = words(
  "ANTHROPIC_* OPENAI_* GEMINI_* GOOGLE_API_KEY GOOGLE_GENERATIVE_AI_* GOOGLE_GEMINI_*",
  "AI_GATEWAY_API_KEY ALIBABA_API_KEY BAILIAN_* BASETEN_API_KEY CEREBRAS_API_KEY CHUTES_API_KEY",
  "COHERE_API_KEY DASHSCOPE_* DEEPINFRA_API_KEY DEEPSEEK_* FIREWORKS_API_KEY GROQ_* HF_TOKEN",
  "HUGGINGFACE_API_KEY INCEPTION_API_KEY KIMI_* LLM_* LMSTUDIO_* MINIMAX_* MISTRAL_*",
  "MODELSCOPE_* MOONSHOT_* NEBIUS_API_KEY NVIDIA_API_KEY OLLAMA_* OPENROUTER_* PERPLEXITY_API_KEY",
  "SYNTHETIC_API_KEY TOGETHER_API_KEY VENICE_API_KEY XAI_* ZAI_* ZHIPU_API_KEY",
);

const AWS: readonly string[] = ["AWS_*"];
const GOOGLE: readonly string[] = ["GOOGLE_*", "GCLOUD_*", "CLOUDSDK_*", "GCP_*", "VERTEX_*", "CLOUD_ML_REGION"];
const AZURE: readonly string[] = ["AZURE_*"];

type Rule = (call: Pick<AgentEnvironmentParams, "variables" | "model" | "args">) => readonly string[];

/** Settings and login variables of each agent. Cloud credentials are passed only if the agent is configured for that cloud. */
const RULES: Readonly<Record<string, Rule>> = {
  claude: ({ variables }) => [
    ...words("ANTHROPIC_* CLAUDE_* API_TIMEOUT_MS BASH_DEFAULT_TIMEOUT_MS BASH_MAX_* DISABLE_* IS_SANDBOX"),
    ...words("ENABLE_TOOL_SEARCH MAX_MCP_OUTPUT_TOKENS MAX_THINKING_TOKENS MCP_* OTEL_* USE_BUILTIN_RIPGREP"),
    ...(isOn(variables["CLAUDE_CODE_USE_BEDROCK"]) ? AWS : []),
    ...(isOn(variables["CLAUDE_CODE_USE_VERTEX"]) ? GOOGLE : []),
    ...(isOn(variables["CLAUDE_CODE_USE_FOUNDRY"]) ? AZURE : []),
  ],
  codex: () => ["CODEX_*", "OPENAI_*", "AZURE_OPENAI_*", "OTEL_*"],
  copilot: ({ variables }) => ["COPILOT_*", "GITHUB_COPILOT_*", "GH_HOST", ...copilotLogin(variables)],
  gemini: ({ variables }) => [
    ...words("GEMINI_* GOOGLE_API_KEY GOOGLE_GEMINI_* GOOGLE_GENAI_* GOOGLE_CLOUD_* OTEL_*"),
    ...(usesVertex(variables) ? GOOGLE : []),
  ],
  opencode: (call) => ["OPENCODE_*", ...MODEL_KEYS, ...providerLogin(call)],
  pi: (call) => ["PI_*", ...MODEL_KEYS, ...providerLogin(call)],
  qwen: () => ["QWEN_*", "OTEL_*", ...MODEL_KEYS],
  // Only the program's name shows which agent a command line runs.
  acp: ruleOfLine,
  command: ruleOfLine,
};

function ruleOfLine({ variables, model }: Parameters<Rule>[0]): readonly string[] {
  const words = new Set((model ?? "").split(/[^A-Za-z0-9_]+/));
  const named = Object.keys(RULES).filter((agent) => agent !== "acp" && agent !== "command" && words.has(agent));
  return [...MODEL_KEYS, ...named.flatMap((agent) => RULES[agent]?.({ variables, model: null }) ?? [])];
}

/** Copilot CLI uses the first of these variables that is set. Offline it uses none. */
function copilotLogin(variables: Variables): readonly string[] {
  if (isOn(variables["COPILOT_OFFLINE"])) return [];
  return ["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"].filter((name) => isSet(variables[name])).slice(0, 1);
}

/** Without an API key, the agent must use Google's own login. */
function usesVertex(variables: Variables): boolean {
  if (isOn(variables["GOOGLE_GENAI_USE_VERTEXAI"]) || isOn(variables["GOOGLE_GENAI_USE_GCA"])) return true;
  return !isSet(variables["GEMINI_API_KEY"]) && !isSet(variables["GOOGLE_API_KEY"]);
}

/** Login variables for agents whose model is `provider/model`, or that accept `--provider`. */
function providerLogin({ model, args = [] }: Parameters<Rule>[0]): readonly string[] {
  const at = args.indexOf("--provider");
  const provider = at === -1 ? (model ?? "").split("/")[0] : args[at + 1];
  return PROVIDERS.find(([pattern]) => pattern.test(provider ?? ""))?.[1] ?? [];
}

const PROVIDERS: readonly (readonly [RegExp, readonly string[]])[] = [
  [/^amazon-bedrock/, AWS],
  [/^google-vertex/, GOOGLE],
  [/^azure/, AZURE],
  [/^github-/, ["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"]],
  [/^gitlab/, ["GITLAB_TOKEN", "GITLAB_INSTANCE_URL"]],
  [/^cloudflare/, ["CLOUDFLARE_*"]],
];

function isSet(value: string | undefined): boolean {
  return value !== undefined && value !== "";
}

function isOn(value: string | undefined): boolean {
  return isSet(value) && !/^(?:0|false|no|off)$/i.test(value ?? "");
}

/** Credentials of forges, clouds, package registries and the SSH agent. */
function isCredential(name: string): boolean {
  return matchesAny(name.toUpperCase(), CREDENTIALS) && !HARMLESS.has(name.toUpperCase());
}

const CREDENTIALS: readonly string[] = words(
  "GITHUB_TOKEN GITHUB_PAT GITHUB_ENTERPRISE_TOKEN GITHUB_APP_* GH_TOKEN GH_PAT GH_ENTERPRISE_TOKEN",
  "COPILOT_GITHUB_TOKEN ACTIONS_RUNTIME_TOKEN ACTIONS_ID_TOKEN_REQUEST_* ACTIONS_RESULTS_URL",
  "GITLAB_TOKEN GITLAB_ACCESS_TOKEN GITLAB_PRIVATE_TOKEN GITLAB_PAT GLAB_TOKEN OAUTH_TOKEN",
  "CI_JOB_TOKEN CI_JOB_JWT* CI_REGISTRY_PASSWORD CI_DEPLOY_PASSWORD CI_REPOSITORY_URL BITBUCKET_*",
  "GITEA_TOKEN FORGEJO_TOKEN SSH_AUTH_SOCK SSH_AGENT_PID SSH_ASKPASS GPG_AGENT_INFO",
  "AWS_* GOOGLE_APPLICATION_CREDENTIALS GOOGLE_CREDENTIALS GOOGLE_OAUTH_* GCLOUD_* CLOUDSDK_*",
  "GCP_* AZURE_* ARM_* CLOUDFLARE_* DIGITALOCEAN_* DO_PAT HEROKU_API_KEY FLY_API_TOKEN",
  "VERCEL_TOKEN NETLIFY_AUTH_TOKEN RAILWAY_TOKEN HCLOUD_TOKEN LINODE_TOKEN KUBECONFIG VAULT_*",
  "TF_TOKEN_* PULUMI_ACCESS_TOKEN NPM_TOKEN NODE_AUTH_TOKEN NPM_CONFIG__AUTH* PYPI_TOKEN PYPI_API_TOKEN",
  "TWINE_PASSWORD UV_PUBLISH_* POETRY_PYPI_TOKEN_* POETRY_HTTP_BASIC_* CARGO_REGISTRY_TOKEN CARGO_REGISTRIES_*",
  "RUBYGEMS_API_KEY GEM_HOST_API_KEY BUNDLE_RUBYGEMS__* NUGET_API_KEY DOCKER_PASSWORD DOCKERHUB_*",
  "DOCKER_AUTH_CONFIG HOMEBREW_GITHUB_API_TOKEN SLACK_* DISCORD_TOKEN SENTRY_AUTH_TOKEN",
);

const HARMLESS: ReadonlySet<string> = new Set(["AWS_REGION", "AWS_DEFAULT_REGION", "AZURE_OPENAI_ENDPOINT"]);

/** Splits lists of names, which are easier to read as text. */
function words(...lines: readonly string[]): readonly string[] {
  return lines.join(" ").split(" ");
}

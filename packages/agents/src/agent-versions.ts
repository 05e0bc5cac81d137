// The oldest supported version of each agent program.

/**
 * The oldest version of an agent's program that Holdfast supports, and how to upgrade it. Each minimum is the release
 * that introduced a required flag or event, or an earlier one. So "too old" is reported only if it is certain.
 */
interface AgentVersion {
  readonly minimum: string;
  /** The feature that the minimum version introduced. */
  readonly needs: string;
  /** The name of the npm package. */
  readonly package: string;
}

export const AGENT_VERSIONS: Readonly<Record<string, AgentVersion>> = {
  claude: {
    minimum: "2.0.73",
    needs: "--session-id together with --fork-session",
    package: "@anthropic-ai/claude-code",
  },
  codex: { minimum: "0.78.0", needs: "--json after exec resume", package: "@openai/codex" },
  copilot: { minimum: "1.0.51", needs: "--session-id for a new session", package: "@github/copilot" },
  gemini: { minimum: "0.42.0", needs: "--session-id", package: "@google/gemini-cli" },
  opencode: { minimum: "1.17.12", needs: "run --auto", package: "opencode-ai" },
  pi: {
    minimum: "0.45.0",
    needs: "--mode json with the session in its first line",
    package: "@earendil-works/pi-coding-agent",
  },
  qwen: { minimum: "0.10.2", needs: "--session-id", package: "@qwen-code/qwen-code" },
};

export function upgradeHint(agent: string): string {
  const known = AGENT_VERSIONS[agent];
  return `Upgrade it: ${known === undefined ? "install its newest version" : `\`npm install -g ${known.package}@latest\``}`;
}

/** "unknown" if the program reports no readable version, or Holdfast has no minimum for it. */
export function judgeVersion(agent: string, version: string | null): "ok" | "too_old" | "unknown" {
  const known = Object.hasOwn(AGENT_VERSIONS, agent) ? AGENT_VERSIONS[agent] : undefined;
  const own = version === null ? null : numbersOf(version);
  const minimum = known === undefined ? null : numbersOf(known.minimum);
  if (own === null || minimum === null) return "unknown";
  for (const [at, least] of minimum.entries()) {
    const part = own[at] ?? 0;
    if (part !== least) return part > least ? "ok" : "too_old";
  }
  return "ok";
}

/** Major, minor and patch. A pre-release or build suffix is ignored. */
function numbersOf(version: string): readonly number[] | null {
  const found = /(\d+)\.(\d+)\.(\d+)/.exec(version);
  return found === null ? null : found.slice(1).map(Number);
}

/**
 * The oldest version of each maker's program that Holdfast can drive, and how to get a newer one. Each minimum follows from a flag or an event that
 * Holdfast needs; it says "too old" only where that is certain, so it is the release that brought the feature, or an earlier one.
 */
export interface AgentVersion {
  readonly minimum: string;
  /** What the minimum brought. */
  readonly needs: string;
  readonly upgrade: string;
}

export const AGENT_VERSIONS: Readonly<Record<string, AgentVersion>> = {
  claude: {
    minimum: "2.0.73",
    needs: "--session-id together with --fork-session",
    upgrade: "npm install -g @anthropic-ai/claude-code@latest",
  },
  codex: {
    minimum: "0.78.0",
    needs: "--json after exec resume",
    upgrade: "npm install -g @openai/codex@latest",
  },
  gemini: { minimum: "0.42.0", needs: "--session-id", upgrade: "npm install -g @google/gemini-cli@latest" },
  opencode: { minimum: "1.17.12", needs: "run --auto", upgrade: "npm install -g opencode-ai@latest" },
  pi: {
    minimum: "0.45.0",
    needs: "--mode json with the session in its first line",
    upgrade: "npm install -g @earendil-works/pi-coding-agent@latest",
  },
  copilot: {
    minimum: "1.0.51",
    needs: "--session-id for a new session",
    upgrade: "npm install -g @github/copilot@latest",
  },
  qwen: {
    minimum: "0.10.2",
    needs: "--session-id",
    upgrade: "npm install -g @qwen-code/qwen-code@latest",
  },
};

/** "unknown": the program does not report a version that can be read, or Holdfast knows no minimum for it. */
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

/** Major, minor and patch; what follows them (a pre-release, a build) does not count. */
function numbersOf(version: string): readonly number[] | null {
  const found = /(\d+)\.(\d+)\.(\d+)/.exec(version);
  return found === null ? null : found.slice(1).map(Number);
}

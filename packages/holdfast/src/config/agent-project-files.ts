/** Lists the project files that each agent's program loads by itself and that need the user's consent. */
import type { AGENT_NAMES } from "@holdfast/core/agent";

type Maker = Exclude<(typeof AGENT_NAMES)[number], "acp" | "command" | "scripted" | "scripted-session">;

/**
 * Repository files that an agent loads by itself and that can start programs: hooks, MCP servers, plugins, login
 * helpers. An entry that ends with "/" is a folder. Without a terminal the agents load them without a question, so
 * Holdfast asks instead. Folders that agents or Holdfast write to during a run (`.claude/crunch/`,
 * `.opencode/node_modules/`) are not listed.
 */
export const PROJECT_FILES: Readonly<Record<Maker, readonly string[]>> = {
  claude: [
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/hooks/",
    ".claude/agents/",
    ".claude/commands/",
    ".claude/skills/",
    ".mcp.json",
  ],
  codex: [".codex/config.toml", ".codex/hooks.json", ".codex/hooks/", ".codex/rules/"],
  copilot: [
    ".github/hooks/",
    ".github/copilot/",
    ".github/extensions/",
    ".github/mcp.json",
    ".github/lsp.json",
    ".copilot/mcp-config.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".mcp.json",
    ".vscode/mcp.json",
  ],
  gemini: [".gemini/settings.json", ".gemini/hooks/", ".gemini/extensions/", ".gemini/agents/", ".gemini/.env", ".env"],
  opencode: [
    "opencode.json",
    "opencode.jsonc",
    ".opencode/opencode.json",
    ".opencode/opencode.jsonc",
    ".opencode/plugin/",
    ".opencode/plugins/",
    ".opencode/tool/",
    ".opencode/tools/",
  ],
  pi: [".pi/settings.json", ".pi/extensions/"],
  qwen: [
    ".qwen/settings.json",
    ".qwen/hooks/",
    ".qwen/extensions/",
    ".qwen/agents/",
    ".qwen/.env",
    ".env",
    ".mcp.json",
  ],
};

/**
 * Files that users keep in their checkout without committing them. Those never reach a run's worktree, so only the
 * worktree is searched for these files.
 */
export const LOCAL_FILES: ReadonlySet<string> = new Set([
  ".claude/settings.local.json",
  ".env",
  ".gemini/.env",
  ".qwen/.env",
]);

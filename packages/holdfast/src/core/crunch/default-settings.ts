import { DEFAULT_AGENTS } from "./default-agents.ts";
import { DEFAULT_GRAPHS } from "./default-graphs.ts";
import type { CrunchSettings } from "./settings.ts";

/** What holds where no file in the repository says otherwise. */
export const defaultCrunchSettings: CrunchSettings = {
  agents: DEFAULT_AGENTS,
  team: { labelPoints: 50, keywordPoints: 15, leastPoints: 15, fallbackImplementer: "dev-python" },
  weights: {
    agents: {
      "security-analyst": { base: 1, boost: 0.5, domains: ["security"] },
      "system-architect": { base: 0.9, boost: 0.3, domains: ["api", "database", "performance"] },
      "devops-engineer": { base: 0.8, boost: 0.3, domains: ["infra"] },
      "dev-cpp": { base: 0.8, boost: 0.3, domains: ["cpp"] },
      "dev-go": { base: 0.8, boost: 0.3, domains: ["go"] },
      "dev-python": { base: 0.8, boost: 0.3, domains: ["python"] },
      "dev-react": { base: 0.8, boost: 0.3, domains: ["frontend"] },
      "dev-*": { base: 0.8, boost: 0.3, domains: [] },
      reviewer: { base: 0.7, boost: 0.2, domains: ["quality"] },
      "qa-engineer": { base: 0.7, boost: 0.2, domains: ["testing"] },
      techwriter: { base: 0.6, boost: 0, domains: [] },
      "knowledge-manager": { base: 0.5, boost: 0, domains: [] },
    },
    others: { base: 0.5, boost: 0, domains: [] },
    maxRounds: 3,
    margin: 0.1,
  },
  veto: { "security-analyst": "CRITICAL", "devops-engineer": "HIGH" },
  graphs: DEFAULT_GRAPHS,
};

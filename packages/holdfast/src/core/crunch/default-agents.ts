import type { Phase } from "./phase.ts";
import type { AgentProfile } from "./settings.ts";
import type { Role } from "./team.ts";

const MINUTE = 60_000;

/** Sixteen that cover most issues. A file in the repository adds others or changes these. */
export const DEFAULT_AGENTS: Readonly<Record<string, AgentProfile>> = {
  orchestrator: agent("coordinator", ["enrich", "implementing", "e2e", "docs"], {
    timeoutMs: MINUTE,
    about: "You coordinate a team: you plan who does what, merge what they found and report it shortly.",
  }),
  "system-architect": agent("supervisor", ["enrich", "implementing"], {
    always: true,
    domains: ["api", "database", "performance"],
    about: "You are a system architect: you write specifications and judge designs.",
  }),
  "security-analyst": agent("supervisor", ["enrich", "implementing", "e2e"], {
    domains: ["security"],
    keywords: ["security", "vulnerability", "cve", "xss", "csrf", "authentication", "oauth", "jwt"],
    about: "You are a security analyst: you model threats and stop what would be unsafe.",
  }),
  "devops-engineer": agent("supervisor", ["enrich", "implementing", "e2e"], {
    domains: ["infra"],
    keywords: ["docker", "kubernetes", "terraform", "deployment", "ci/cd"],
    about: "You are a devops engineer: you judge and change what the software is built and run with.",
  }),
  "dev-cpp": developer("C and C++", ["cpp"], ["c++", "cmake", ".cpp", ".hpp"]),
  "dev-go": developer("Go", ["go"], ["golang", "go.mod", ".go"]),
  "dev-python": developer("Python", ["python"], ["python", "pytest", ".py"]),
  "dev-react": developer("web front ends", ["frontend"], ["react", "frontend", ".tsx", ".jsx"]),
  reviewer: agent("quality", ["implementing"], {
    always: true,
    about: "You review code: you find what is wrong and say how to mend it.",
  }),
  "qa-engineer": agent("quality", ["enrich", "e2e"], {
    always: true,
    timeoutMs: 10 * MINUTE,
    about: "You are a QA engineer: you plan tests, write them and tell whether the software does what was asked.",
  }),
  techwriter: agent("context", ["docs"], {
    always: true,
    about: "You are a technical writer: you bring the documentation up to date.",
  }),
  "knowledge-manager": agent("context", ["enrich", "docs"], {
    always: true,
    timeoutMs: MINUTE,
    about: "You keep what was learned: you find what is known about a matter and write down what is new.",
  }),
  "incident-responder": agent("quality", ["e2e"], {
    keywords: ["incident", "outage", "downtime", "production is down"],
    about: "You respond to incidents: you find causes and the quickest safe way out.",
  }),
  "log-analyst": agent("context", ["enrich"], {
    keywords: ["stack trace", "stacktrace", "traceback", "log file", "core dump"],
    about: "You read logs and traces and say what they prove.",
  }),
  "code-health-analyst": agent("quality", ["implementing"], {
    domains: ["performance"],
    keywords: ["refactor", "refactoring", "technical debt", "dead code"],
    about: "You look after the health of the code: duplication, complexity, speed.",
  }),
  "dependency-manager": agent("supervisor", ["implementing"], {
    keywords: ["dependency", "dependencies", "upgrade", "package.json", "requirements.txt", "go.mod"],
    about: "You judge dependencies: their versions, licences and dangers.",
  }),
};

function agent(
  role: Role,
  phases: readonly Phase[],
  rest: Partial<AgentProfile> & Pick<AgentProfile, "about">,
): AgentProfile {
  return {
    role,
    phases,
    domains: [],
    keywords: [],
    always: false,
    timeoutMs: 5 * MINUTE,
    agent: null,
    ...rest,
  };
}

function developer(what: string, domains: readonly string[], keywords: readonly string[]): AgentProfile {
  return agent("implementer", ["implementing"], {
    domains,
    keywords,
    timeoutMs: 10 * MINUTE,
    about: `You are a developer for ${what}: you implement what the specification says, with tests.`,
  });
}

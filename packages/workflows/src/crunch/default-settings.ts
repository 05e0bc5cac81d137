// The built-in settings of crunch: agents, team rules, vote weights, vetoes and the graph of each phase.

import type { Phase } from "./phases.ts";
import type {
  AgentProfile,
  CrunchSettings,
  GraphPhase,
  GraphTemplate,
  TemplateCondition,
  TemplateNode,
} from "./settings.ts";
import type { Role } from "./team.ts";

const MINUTE = 60_000;

/** What the settings of an agent leave out. */
export const BLANK_PROFILE: AgentProfile = {
  role: "implementer",
  phases: [],
  domains: [],
  keywords: [],
  always: false,
  timeoutMs: 5 * MINUTE,
  agent: null,
  about: "",
};

/** Seventeen agents that cover most issues. A file in the repository can change them or add others. */
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
  "dev-cpp": specialist("C and C++", ["C", "C++"], ["cpp"], ["c++", "cmake", ".cpp", ".hpp"]),
  "dev-go": specialist("Go", ["Go"], ["go"], ["golang", "go.mod", ".go"]),
  "dev-python": specialist("Python", ["Python"], ["python"], ["python", "pytest", ".py"]),
  "dev-react": specialist(
    "web front ends",
    ["JSX", "Svelte", "Vue"],
    ["frontend"],
    ["react", "frontend", ".tsx", ".jsx"],
  ),
  developer: agent("implementer", ["implementing"], {
    timeoutMs: 10 * MINUTE,
    about:
      "You are a developer: you implement what the specification says, with tests, in the languages of this repository.",
  }),
  reviewer: agent("quality", ["implementing"], {
    always: true,
    about: "You review code: you find what is wrong and say how to fix it.",
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
  return { ...BLANK_PROFILE, role, phases, ...rest };
}

function specialist(
  what: string,
  languages: readonly string[],
  domains: readonly string[],
  keywords: readonly string[],
): AgentProfile {
  return agent("implementer", ["implementing"], {
    domains,
    keywords,
    languages,
    timeoutMs: 10 * MINUTE,
    about: `You are a developer for ${what}: you implement what the specification says, with tests.`,
  });
}

const ALWAYS: TemplateCondition = { domains: [], labels: [], complexity: null };
const SECURITY: TemplateCondition = { ...ALWAYS, domains: ["security"] };
const INFRA: TemplateCondition = { ...ALWAYS, domains: ["infra"] };

/** Agents change only files, and only in a side worktree that can be reset. Every node may therefore run again. */
export const BLANK_NODE: Omit<TemplateNode, "id" | "who" | "action" | "task"> = {
  after: [],
  priority: "normal",
  timeoutMs: null,
  retries: 0,
  idempotent: true,
  edits: false,
  outputs: [],
  when: ALWAYS,
};

/**
 * The nodes of each phase and their order. A node drops out if its agent is not in the team or its condition is false.
 */
const DEFAULT_GRAPHS: Readonly<Record<GraphPhase, GraphTemplate>> = {
  enrich: {
    nodes: [
      node("brief", "knowledge-manager", "generate_brief", {
        task: "Find what is already known about this issue: related issues, patterns and earlier decisions.",
        retries: 1,
        outputs: ["brief"],
      }),
      node("logs", "log-analyst", "diagnose", {
        task: "Read the logs and traces of the issue and say what they prove.",
      }),
      node("spec", "system-architect", "create_spec", {
        task: "Write the specification: what is to be done, where, how it is accepted, and which files it will touch.",
        after: ["brief", "logs"],
        priority: "critical",
        retries: 1,
        outputs: ["spec"],
      }),
      node("threats", "security-analyst", "threat_model", {
        task: "Model the threats of what the specification proposes.",
        after: ["spec"],
        priority: "high",
        when: SECURITY,
      }),
      node("infra", "devops-engineer", "design_review", {
        task: "Judge what the specification means for building, deploying and running.",
        after: ["spec"],
        when: INFRA,
      }),
      node("test-plan", "qa-engineer", "create_test_plan", {
        task: "Plan the tests that show that the specification is met.",
        after: ["spec"],
        retries: 1,
        outputs: ["test-plan"],
      }),
      node("plan", "orchestrator", "merge_findings", {
        task: "Merge the findings into one plan for the implementers.",
        after: ["spec", "threats", "infra", "test-plan"],
        retries: 1,
        outputs: ["plan"],
      }),
    ],
    edges: [{ type: "data", from: "spec", to: "test-plan", key: "spec" }],
  },
  implementing: {
    nodes: [
      role("implement", "implementer", "implement", {
        task: "Implement your part of the specification, with tests.",
        priority: "critical",
        retries: 1,
        edits: true,
      }),
      node("build", "devops-engineer", "implement", {
        task: "Change what the software is built and deployed with, as the specification says.",
        after: ["implement"],
        edits: true,
        when: INFRA,
      }),
      node("dependencies", "dependency-manager", "audit", {
        task: "Judge the dependencies that were added or changed.",
        after: ["implement", "build"],
      }),
      role("review", "quality", "review_code", {
        task: "Review the changes against the specification. Name what is wrong, with its place.",
        after: ["implement", "build"],
        priority: "high",
      }),
      node("security-review", "security-analyst", "security_review", {
        task: "Review the changes for weaknesses. What must not be merged is a finding of severity CRITICAL.",
        after: ["implement", "build"],
        priority: "high",
        when: SECURITY,
      }),
      role("revise", "implementer", "implement", {
        task: "Fix what the reviewers found in your part. Change nothing where they found nothing.",
        after: ["review", "security-review", "dependencies"],
        priority: "high",
        retries: 1,
        edits: true,
      }),
      node("report", "orchestrator", "merge_findings", {
        task: "Say in short what was built, what was found and what was left open.",
        after: ["revise"],
      }),
    ],
    edges: [],
  },
  e2e: {
    nodes: [
      node("tests", "qa-engineer", "implement", {
        task: "Write the end-to-end tests of the test plan that are still missing.",
        edits: true,
        retries: 1,
      }),
      node("validate", "qa-engineer", "validate", {
        task: "Run the tests and try out what was asked for. Status FAILED when it does not do what the specification says.",
        after: ["tests"],
        priority: "critical",
      }),
      node("security-check", "security-analyst", "audit", {
        task: "Check that the threats of the model are met.",
        after: ["tests"],
        priority: "high",
        when: SECURITY,
      }),
      node("deploy-check", "devops-engineer", "validate", {
        task: "Check that it can be built and deployed.",
        after: ["tests"],
        when: INFRA,
      }),
      node("incident", "incident-responder", "investigate", {
        task: "Check that the incident cannot come back the same way.",
        after: ["validate"],
      }),
      node("report", "orchestrator", "merge_findings", {
        task: "Say in short what was tested and what came out.",
        after: ["validate", "security-check", "deploy-check", "incident"],
      }),
    ],
    edges: [],
  },
  docs: {
    nodes: [
      node("document", "techwriter", "document", {
        task: "Bring the documentation and the changelog up to date with the changes.",
        edits: true,
        retries: 1,
      }),
      node("learn", "knowledge-manager", "document", {
        task: "Write down what was decided and learned, as knowledge entries.",
        after: ["document"],
        priority: "low",
      }),
    ],
    edges: [],
  },
};

type Rest = Partial<TemplateNode> & Pick<TemplateNode, "task">;

function node(id: string, agent: string, action: string, rest: Rest): TemplateNode {
  return { ...BLANK_NODE, id, who: { kind: "agent", agent }, action, ...rest };
}

function role(id: string, name: "implementer" | "quality", action: string, rest: Rest): TemplateNode {
  return { ...BLANK_NODE, id, who: { kind: "role", role: name }, action, ...rest };
}

/** The settings that apply unless a file in the repository overrides them. */
export const defaultCrunchSettings: CrunchSettings = {
  agents: DEFAULT_AGENTS,
  team: { labelPoints: 50, keywordPoints: 15, leastPoints: 15, fallbackImplementer: "developer" },
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
      developer: { base: 0.8, boost: 0.3, domains: [] },
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

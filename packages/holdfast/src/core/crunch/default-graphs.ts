import type { GraphPhase, GraphTemplate, TemplateCondition, TemplateNode } from "./graph-template.ts";

const ALWAYS: TemplateCondition = { domains: [], labels: [], complexity: null };
const SECURITY: TemplateCondition = { ...ALWAYS, domains: ["security"] };
const INFRA: TemplateCondition = { ...ALWAYS, domains: ["infra"] };

/** Agents change nothing but files, and those in a worktree of their own, which is put back: all of it may be run again. */
const BLANK: Omit<TemplateNode, "id" | "who" | "action" | "task"> = {
  after: [],
  priority: "normal",
  timeoutMs: null,
  retries: 0,
  idempotent: true,
  edits: false,
  outputs: [],
  when: ALWAYS,
};

/** Who does what in a phase, and after whom. Nodes whose agent is not in the team, or whose condition does not hold, fall out. */
export const DEFAULT_GRAPHS: Readonly<Record<GraphPhase, GraphTemplate>> = {
  enrich: {
    nodes: [
      node("brief", "knowledge-manager", "generate_brief", {
        task: "Find what is already known about this issue: related issues, patterns and earlier decisions.",
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
        outputs: ["test-plan"],
      }),
      node("plan", "orchestrator", "merge_findings", {
        task: "Merge the findings into one plan for the implementers.",
        after: ["spec", "threats", "infra", "test-plan"],
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
        task: "Mend what the reviewers found in your part. Change nothing where they found nothing.",
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
  return { ...BLANK, id, who: { kind: "agent", agent }, action, ...rest };
}

function role(id: string, name: "implementer" | "quality", action: string, rest: Rest): TemplateNode {
  return { ...BLANK, id, who: { kind: "role", role: name }, action, ...rest };
}

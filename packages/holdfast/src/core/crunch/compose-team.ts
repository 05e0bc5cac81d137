import { pureSha256 } from "../sha256.ts";
import { needsOrchestrator, scoreComplexity } from "./complexity.ts";
import type { ComplexitySigns } from "./complexity.ts";
import { countWords, domainsInText } from "./domains.ts";
import { DOMAINS, domainsOfLabels, hasLabel } from "./labels.ts";
import type { AgentProfile, CrunchSettings, TeamRules } from "./settings.ts";
import type { Team, TeamMember } from "./team.ts";

export interface TeamIssue {
  readonly number: number;
  readonly title: string;
  readonly body: string;
  readonly labels: readonly string[];
}

/** Who works on an issue, and why. From labels and words alone: the same issue has the same team again. */
export function composeTeam(params: {
  readonly issue: TeamIssue;
  readonly settings: Pick<CrunchSettings, "agents" | "team">;
  /** How often the work on it has failed before. */
  readonly priorFailures: number;
  readonly at: string;
}): Team {
  const { issue, settings } = params;
  const signs = readSigns(issue, params.priorFailures);
  const complexity = scoreComplexity(signs);
  const complex = hasLabel(issue.labels, "complex");
  const orchestrated = needsOrchestrator({ ...signs, score: complexity.score, complex });
  const text = `${issue.title}\n${issue.body}`;
  const members = Object.entries(settings.agents).flatMap(([agent, profile]): TeamMember[] => {
    const score = routingScore({ profile, text, domains: signs.domains, rules: settings.team });
    const called = profile.role === "coordinator" ? orchestrated : profile.always || score >= settings.team.leastPoints;
    const points = profile.always || profile.role === "coordinator" ? 100 : score;
    return called ? [{ agent, role: profile.role, phases: profile.phases, routingScore: points }] : [];
  });
  const whole = withImplementer(members, settings);
  const hash = pureSha256(JSON.stringify([issue.number, params.at, whole.map((member) => member.agent)])).slice(0, 4);
  return {
    id: `TEAM-${params.at.slice(0, 10).replaceAll("-", "")}-${hash}`,
    issue: issue.number,
    complexity,
    domains: signs.domains,
    members: whole,
    tasks: {},
  };
}

/** What an issue says about how hard it is. */
export function readSigns(issue: TeamIssue, priorFailures: number): ComplexitySigns {
  const text = `${issue.title}\n${issue.body}`;
  const found = new Set<string>([...domainsOfLabels(issue.labels), ...domainsInText(text)]);
  return {
    domains: DOMAINS.filter((domain) => found.has(domain)),
    files: filesNamed(issue.body),
    breaking: hasLabel(issue.labels, "breaking-change") || countWords(text, ["breaking change"]) > 0,
    priorFailures,
  };
}

/** Without anybody who implements there is no work: the one that the rules name, else the first there is. */
function withImplementer(
  members: readonly TeamMember[],
  settings: Pick<CrunchSettings, "agents" | "team">,
): readonly TeamMember[] {
  if (members.some((member) => member.role === "implementer")) return members;
  const implementers = Object.entries(settings.agents).filter(([, profile]) => profile.role === "implementer");
  const [agent, profile] =
    implementers.find(([name]) => name === settings.team.fallbackImplementer) ?? implementers[0] ?? [];
  return agent === undefined || profile === undefined
    ? members
    : [...members, { agent, role: profile.role, phases: profile.phases, routingScore: 0 }];
}

function routingScore(params: {
  readonly profile: AgentProfile;
  readonly text: string;
  readonly domains: readonly string[];
  readonly rules: TeamRules;
}): number {
  const { profile, rules } = params;
  const labels = profile.domains.filter((domain) => params.domains.includes(domain)).length;
  const points = labels * rules.labelPoints + countWords(params.text, profile.keywords) * rules.keywordPoints;
  return Math.min(100, points);
}

/** Paths that the text names, each once: the best guess at how many files will change before anybody has looked. */
function filesNamed(text: string): number {
  const paths = text
    .slice(0, 100_000)
    .match(/[\w.-]+(?:\/[\w.-]+)+\.\w{1,8}\b|\b[\w-]+\.(?:[cm]?[jt]sx?|py|go|[ch]pp)\b/g);
  return new Set(paths).size;
}

import { AGENT_VERSIONS, judgeVersion } from "../../../core/agent/agent-versions.ts";
import type { ObservedAgent } from "../../../app/observe-agents.ts";
import type { AgentTrial } from "../../../app/try-agent.ts";
import type { AgentCapabilities } from "../../../ports/agent.ts";
import { escapeText } from "../../output/escape-text.ts";
import { paint, type Page } from "../../output/page.ts";
import { moneyText, timeText, tokensText } from "../../output/spent-text.ts";
import { renderTable, type Cell } from "../../output/table.ts";
import { wrap } from "../../output/wrap.ts";

export function agentsText(agents: readonly ObservedAgent[], page: Page): string {
  const columns = [
    { title: "AGENT" },
    { title: "VERSION", optional: true },
    { title: "NEEDS", optional: true },
    { title: "STATE" },
    { title: "CAN", wrap: true, shrinkTo: 12 },
  ] as const;
  const rows = agents.map((agent): readonly Cell[] => [
    { text: agent.name, style: "bold" },
    { text: agent.probe.version ?? "" },
    { text: AGENT_VERSIONS[agent.name]?.minimum ?? "", style: "dim" },
    stateCell(agent),
    { text: abilities(agent.capabilities), style: "dim" },
  ]);
  const fixes = agents.flatMap(({ name, probe: { installed, problem, hint } }) =>
    problem === null
      ? []
      : [[`${name}:`, installed ? `${problem}.` : "", hint ?? ""].filter((part) => part !== "").join(" ")],
  );
  const list = fixes.flatMap((fix) => wrapped(fix, page)).join("\n");
  return renderTable({ columns, rows }, page) + (list === "" ? "" : `\n${list}\n`);
}

function stateCell({ name, probe }: ObservedAgent): Cell {
  if (!probe.installed) return { text: "missing", style: "dim" };
  if (judgeVersion(name, probe.version) === "too_old") return { text: "too old", style: "red" };
  return probe.problem === null ? { text: "ready", style: "green" } : { text: "not ready", style: "yellow" };
}

const WORDS: Readonly<Record<keyof AgentCapabilities, string>> = {
  resume: "resume",
  forkAtMessage: "rewind",
  chooseSession: "own ids",
  usage: "tokens",
  cost: "money",
  structuredOutput: "schemas",
  seed: "seeds",
};

function abilities(capabilities: AgentCapabilities): string {
  const names: readonly (keyof AgentCapabilities)[] = [
    "resume",
    "forkAtMessage",
    "chooseSession",
    "usage",
    "cost",
    "structuredOutput",
    "seed",
  ];
  return names.flatMap((name) => (capabilities[name] === true ? [WORDS[name]] : [])).join(", ");
}

export function trialText(named: string, trial: AgentTrial, page: Page): string {
  const { outcome, wrote, others, milliseconds } = trial;
  const done = outcome.kind === "completed" && wrote;
  const result =
    outcome.kind === "failed"
      ? `failed (${outcome.cause}): ${outcome.message}`
      : wrote
        ? "wrote the file that it was asked for"
        : "ended well, but did not write what it was asked for";
  const lines = [
    [paint(page, done ? "green" : "red", done ? "ok  " : "fail"), `${named} ${result}`],
    ...(outcome.kind === "failed" && outcome.hint !== null ? [["fix ", outcome.hint]] : []),
    ...(outcome.kind === "failed" && outcome.until !== null ? [["when", `it answers again at ${outcome.until}`]] : []),
    ...(others.length === 0 ? [] : [["also", `it left ${others.join(", ")}`]]),
    ["cost", spent(trial)],
    ["time", timeText(milliseconds)],
  ];
  const text = lines.map(([mark = "", words = ""]) => {
    const [first = "", ...more] = wrap(escapeText(words), room(page) - 6);
    return [`${mark}  ${first}`, ...more.map((line) => `      ${line}`)].join("\n");
  });
  return `${text.join("\n")}\n`;
}

/** What a test would do, before anything is spent. */
export function trialPlanText(plan: string, prompt: string, page: Page): string {
  return `${wrap(escapeText(plan), room(page)).join("\n")}\n\n${prompt}`;
}

function spent({ outcome: { usage } }: AgentTrial): string {
  const { inputTokens, outputTokens, microUsd } = usage;
  const money = microUsd === null ? "money unknown" : moneyText(microUsd);
  if (inputTokens === null && outputTokens === null) return `tokens unknown, ${money}`;
  return `${tokensText((inputTokens ?? 0) + (outputTokens ?? 0))} (${inputTokens ?? "?"} in, ${outputTokens ?? "?"} out), ${money}`;
}

function wrapped(text: string, page: Page): readonly string[] {
  const [first = "", ...more] = wrap(escapeText(text), room(page) - 2);
  return [first, ...more.map((line) => `  ${line}`)];
}

function room(page: Page): number {
  return Number.isFinite(page.width) ? page.width : 1000;
}

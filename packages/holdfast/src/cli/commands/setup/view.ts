import { splitAgent } from "../../../core/agent/agent-names.ts";
import { escapeText } from "../../output/escape-text.ts";
import type { Page } from "../../output/page.ts";
import { wrap } from "../../output/wrap.ts";
import type { Found, SetupPlan } from "./plan-setup.ts";
import { readyAgents } from "./plan-setup.ts";

/** What was found and what is proposed, a line each. */
export function foundText(found: Found, plan: SetupPlan, page: Page): string {
  const lines: readonly (readonly [string, string])[] = [
    ["agent", agentLine(found, plan)],
    ["forge", forgeLine(found)],
    ["gate", gateLine(found, plan)],
  ];
  const room = Number.isFinite(page.width) ? page.width - LEFT : 1000;
  const text = lines.flatMap(([name, words]) => {
    const [first = "", ...more] = wrap(escapeText(words), room);
    return [name.padEnd(LEFT) + first, ...more.map((line) => " ".repeat(LEFT) + line)];
  });
  return `${text.join("\n")}\n`;
}

const LEFT = 7;

function agentLine({ agents }: Found, { agent }: SetupPlan): string {
  if (agent === null) return "none is ready; `holdfast agents` says what each of them needs";
  const seen = agents.find(({ name }) => name === splitAgent(agent).provider);
  const state = seen === undefined ? "" : ` (${seen.probe.version ?? "no version"}, ${seen.probe.problem ?? "ready"})`;
  const others = readyAgents(agents).filter((name) => name !== seen?.name);
  return `${agent}${state}${others.length === 0 ? "" : `; also ready: ${others.join(", ")}`}`;
}

function forgeLine({ forge }: Found): string {
  if (forge === null) return "none: no remote tells of one, so there are neither issues nor pull requests";
  if (forge.fix !== null) return `${forge.name}, ${forge.location}: no login. ${forge.fix}`;
  return `${forge.name}, ${forge.location}${forge.login === null ? "" : `, through ${forge.login}`}`;
}

function gateLine({ gate, now }: Found, plan: SetupPlan): string {
  if (plan.gate === null) return "none: nothing here says how it is tested; --gate names a command";
  if (plan.gate === now.impl.gate) return `${plan.gate} (as the config says)`;
  return plan.gate === gate?.command ? `${plan.gate} (${gate.why})` : plan.gate;
}

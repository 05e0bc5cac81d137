import { createAgentRegistry } from "../agents/registry.ts";
import type { AgentArgs } from "../core/agent/agent-args.ts";
import { AGENT_PROGRAMS, splitAgent } from "../core/agent/agent-names.ts";
import type { AgentCapabilities, AgentPreview, AgentProbe } from "../ports/agent.ts";
import { systemClock } from "../system/clock.ts";

export interface ObservedAgent {
  readonly name: string;
  readonly capabilities: AgentCapabilities;
  readonly probe: AgentProbe;
}

/**
 * Each of these agents asked whether it is there, all at once; nothing is spent. They start real programs, some of which take a second each
 * on a machine that has nothing else to do: who does not answer in time is told as such, and nobody waits for the slowest.
 */
export async function observeAgents(
  params: { readonly names?: readonly string[]; readonly boundMs?: number } = {},
): Promise<readonly ObservedAgent[]> {
  const { names = AGENT_PROGRAMS, boundMs = BOUND_MS } = params;
  const registry = createAgentRegistry({ clock: systemClock, directory: "." });
  return await Promise.all(
    names.map(async (name) => {
      const agent = registry.agent(name);
      const { capabilities } = agent;
      return { name, capabilities, probe: await within(boundMs, agent.probe(), late(name, boundMs)) };
    }),
  );
}

/** What a call of this agent would start. Nothing is started. */
export function previewAgent(params: {
  readonly named: string;
  readonly role: string;
  readonly cwd: string;
  readonly yolo: boolean;
  readonly args: AgentArgs;
  readonly env: readonly string[];
}): AgentPreview | null {
  const { provider, model } = splitAgent(params.named);
  const registry = createAgentRegistry({
    clock: systemClock,
    directory: params.cwd,
    args: params.args,
    env: params.env,
  });
  const agent = registry.agent(provider);
  const preview = agent.preview?.({
    mark: "",
    cwd: params.cwd,
    prompt: "<prompt>",
    role: params.role,
    model,
    session: null,
    yolo: params.yolo,
    iteration: 1,
    attempt: 1,
    env: {},
    timeoutMs: null,
    idleMs: null,
    signal: new AbortController().signal,
    onEvent: () => undefined,
  });
  return preview ?? null;
}

/** USAGE with the known names for a provider that there is not. */
export function checkAgentName(provider: string): void {
  createAgentRegistry({ clock: systemClock, directory: "." }).agent(provider);
}

const BOUND_MS = 15_000;

async function within<T>(milliseconds: number, work: Promise<T>, otherwise: T): Promise<T> {
  const { promise, resolve } = Promise.withResolvers<T>();
  const timer = setTimeout(resolve, milliseconds, otherwise);
  try {
    return await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
}

function late(name: string, milliseconds: number): AgentProbe {
  const problem = `It did not answer within ${milliseconds / 1000} s`;
  return { installed: true, version: null, problem, hint: `Run \`${name} --version\` by hand to see what keeps it.` };
}

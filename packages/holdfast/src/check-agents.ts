/** Checks which agents are installed and ready, previews how they would be started, and tries one with a tiny task. */
import { mkdtemp, readFile, readdir, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createAgentRegistry } from "@holdfast/agents/registry";
import {
  AGENT_PROGRAMS,
  type AgentArgs,
  type AgentCapabilities,
  type AgentEvent,
  type AgentOutcome,
  type AgentPreview,
  type AgentProbe,
  splitAgent,
} from "@holdfast/core/agent";
import { systemClock } from "@holdfast/platform/clock";
import { randomId } from "@holdfast/platform/identity";
import { runProcess } from "@holdfast/platform/subprocess";

export interface ObservedAgent {
  readonly name: string;
  readonly capabilities: AgentCapabilities;
  readonly probe: AgentProbe;
}

/**
 * Probes these agents in parallel, without any cost. Some programs take a second to start. An agent that does not
 * answer in time is reported as such, so the slowest program does not delay the result.
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

/** Returns what a call of this agent would start, without starting it. */
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

/** Throws USAGE, with the known names, for an unknown provider. */
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
  const problem = `It did not respond within ${milliseconds / 1000} s`;
  return { installed: true, version: null, problem, hint: `Run \`${name} --version\` by hand to find the cause.` };
}

export interface AgentTrial {
  readonly outcome: AgentOutcome;
  /** The agent created the file with the requested words. */
  readonly wrote: boolean;
  /** Other files that the agent left behind. */
  readonly others: readonly string[];
  readonly milliseconds: number;
}

/**
 * Gives an agent one tiny task in a temporary repository, which is removed afterwards. This spends what one model call
 * costs.
 */
export async function tryAgent(params: {
  /** `provider:model`. */
  readonly named: string;
  /** Base of relative paths to scripts and commands. */
  readonly directory: string;
  readonly yolo: boolean;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly onEvent: (event: AgentEvent) => void;
}): Promise<AgentTrial> {
  const { provider, model } = splitAgent(params.named);
  const agent = createAgentRegistry({ clock: systemClock, directory: params.directory }).agent(provider);
  const cwd = await realpath(await mkdtemp(join(tmpdir(), "holdfast-agent-")));
  const words = `holdfast ${randomId().slice(0, 8)}`;
  try {
    // Some agents refuse to work outside a repository.
    await runProcess({ command: "git", args: ["init", "-q", cwd], timeoutMs: 30_000 });
    await writeFile(join(cwd, "README.md"), "A temporary repository for testing an agent.\n");
    const began = performance.now();
    const outcome = await agent.run({
      mark: `trial-${randomId()}/1/agent`,
      cwd,
      prompt: trialPrompt(words),
      role: "impl",
      model,
      session: null,
      yolo: params.yolo,
      timeoutMs: params.timeoutMs,
      idleMs: null,
      iteration: 1,
      attempt: 1,
      env: {},
      signal: params.signal,
      onEvent: params.onEvent,
    });
    const milliseconds = Math.round(performance.now() - began);
    const left = (await readdir(cwd)).filter((name) => ![".git", "README.md", TRIAL_FILE].includes(name));
    return { outcome, wrote: await holds(join(cwd, TRIAL_FILE), words), others: left.toSorted(), milliseconds };
  } finally {
    await rm(cwd, { recursive: true, force: true, maxRetries: 3 });
  }
}

const TRIAL_FILE = "hello.txt";

/** Exported so that the CLI can show the prompt before anything is spent. */
export function trialPrompt(words: string): string {
  return `Write a file named ${TRIAL_FILE} into the current directory. It holds one line:\n${words}\nDo nothing else, and then answer with the word done.\n`;
}

async function holds(path: string, words: string): Promise<boolean> {
  const text = await readFile(path, "utf8").catch(() => "");
  return text.trim() === words;
}

import { mkdtemp, readFile, readdir, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createAgentRegistry } from "../agents/registry.ts";
import { splitAgent } from "../core/agent/agent-names.ts";
import type { AgentEvent, AgentOutcome } from "../ports/agent.ts";
import { systemClock } from "../system/clock.ts";
import { randomId } from "../system/ids.ts";
import { runProcess } from "../system/subprocess.ts";

export interface AgentTrial {
  readonly outcome: AgentOutcome;
  /** The file is there, with the words that were asked for. */
  readonly wrote: boolean;
  /** What else it left. */
  readonly others: readonly string[];
  readonly milliseconds: number;
}

/** One tiny task for an agent, in a repository of its own that is gone afterwards. This spends what a model call costs. */
export async function tryAgent(params: {
  /** `provider:model`. */
  readonly named: string;
  /** Where relative paths of scripts and commands begin. */
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
    // Some refuse to work outside of a repository.
    await runProcess({ command: "git", args: ["init", "-q", cwd], timeoutMs: 30_000 });
    await writeFile(join(cwd, "README.md"), "A place to try an agent in.\n");
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

/** Also for those who want to see it before anything is spent. */
export function trialPrompt(words: string): string {
  return `Write a file named ${TRIAL_FILE} into the current directory. It holds one line:\n${words}\nDo nothing else, and then answer with the word done.\n`;
}

async function holds(path: string, words: string): Promise<boolean> {
  const text = await readFile(path, "utf8").catch(() => "");
  return text.trim() === words;
}

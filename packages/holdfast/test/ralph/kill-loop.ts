import type { BuiltCommand, Finished } from "@holdfast/test-support/built-command";
import type { Chance } from "../faults/harness/seed.ts";
import type { LoopScene } from "./loop-scene.ts";

/** One process that executed a loop, as seen by the process that started and killed it. */
export interface Life {
  readonly pid: number;
  /** When it reported that it works, so that the store certainly has its lease; null: it did not get that far. */
  readonly heardAt: number | null;
  /** When it was sent SIGKILL; null: it ended by itself. */
  readonly killedAt: number | null;
  readonly endedAt: number;
}

export interface LoopLives {
  readonly run: string;
  readonly lives: readonly Life[];
  /** How the last one ended. */
  readonly last: Finished;
}

/**
 * Starts a loop and resumes it after each kill, at random moments, until it ends by itself. `mayKill` is called before
 * each life: false lets it live.
 */
export async function killLoop(params: {
  readonly command: BuiltCommand;
  readonly scene: LoopScene;
  readonly run: string;
  readonly words: readonly string[];
  readonly chance: Chance;
  readonly mayKill: () => boolean;
  readonly hasEnded: (run: string) => Promise<boolean>;
}): Promise<LoopLives> {
  const { command, scene, run, words, chance } = params;
  const lives: Life[] = [];
  for (;;) {
    const [since, after] = [chance.coin() ? "spawn" : "work", chance.below(LONGEST_MS)] as const;
    const { life, finished } = await live(command, scene, words, params.mayKill() ? { since, after } : null);
    lives.push(life);
    // A loop that was killed after its last commit has ended; starting it again would be another loop.
    if (life.killedAt === null || (await params.hasEnded(run))) return { run, lives, last: finished };
  }
}

/** Long enough for an iteration or two. Counted from its start, it falls into that as well; from its first work, into work however slow the machine. */
const LONGEST_MS = 1800;

interface Death {
  readonly since: "spawn" | "work";
  /** Milliseconds. */
  readonly after: number;
}

async function live(
  command: BuiltCommand,
  scene: LoopScene,
  words: readonly string[],
  death: Death | null,
): Promise<{ readonly life: Life; readonly finished: Finished }> {
  const child = command.start(["--json", ...words], { cwd: scene.repository });
  let [stdout, stderr] = ["", ""];
  let heardAt: number | null = null;
  let killedAt: number | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const arm = (moment: Death["since"]): void => {
    if (death?.since !== moment) return;
    timer = setTimeout(() => {
      killedAt = Date.now();
      child.kill("SIGKILL");
    }, death.after);
  };
  arm("spawn");
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    if (heardAt !== null || !stdout.includes('"kind":"started"')) return;
    heardAt = Date.now();
    arm("work");
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  // "exit" and not "close": an agent that lives on keeps the pipes open.
  const status = await new Promise<number | null>((resolve) => child.on("exit", (code) => resolve(code)));
  clearTimeout(timer);
  const endedAt = Date.now();
  if (status === null) {
    child.stdout?.destroy();
    child.stderr?.destroy();
  } else await new Promise((resolve) => setTimeout(resolve, DRAIN_MS));
  const life = { pid: child.pid ?? 0, heardAt, killedAt: status === null ? killedAt : null, endedAt };
  return { life, finished: { status, stdout, stderr } };
}

const DRAIN_MS = 50;

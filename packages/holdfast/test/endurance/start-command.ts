import type { BuiltCommand } from "@holdfast/test-support/built-command";
import type { Scene } from "./scene.ts";

export interface Started {
  readonly pid: number;
  /** Resolves at the nth line of its output, or when it has ended without. */
  line(nth: number): Promise<void>;
  signal(name: NodeJS.Signals): void;
  readonly ended: Promise<Ended>;
}

export interface Ended {
  readonly status: number | null;
  readonly by: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The real command at work in a scene. */
export function startCommand(command: BuiltCommand, scene: Scene, ...args: readonly string[]): Started {
  const child = command.start(args, { cwd: scene.clone, env: scene.env });
  let [stdout, stderr] = ["", ""];
  const waiting = new Set<() => void>();
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    for (const look of waiting) look();
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (status, by) => resolve({ status, by, stdout, stderr }));
  });
  return {
    pid: child.pid ?? 0,
    ended,
    signal: (name) => void child.kill(name),
    line: (nth) =>
      Promise.race([
        ended.then(() => undefined),
        new Promise<void>((resolve) => {
          const look = (): void => {
            if (stdout.split("\n").length <= nth) return;
            waiting.delete(look);
            resolve();
          };
          waiting.add(look);
          look();
        }),
      ]),
  };
}

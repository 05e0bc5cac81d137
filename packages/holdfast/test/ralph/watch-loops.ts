import type { RunStatus } from "@holdfast/core/status";
import type { BuiltCommand } from "@holdfast/test-support/built-command";
import type { LoopScene } from "./loop-scene.ts";

/** The output of one read of the unfinished runs, and the moments between which it was taken. */
export interface Look {
  readonly from: number;
  readonly to: number;
  readonly runs: readonly { readonly id: string | null; readonly status: RunStatus }[];
}

/** `holdfast status --json --watch` in a separate process, restarted on request. */
export function watchLoops(
  command: BuiltCommand,
  scene: LoopScene,
): { readonly looks: readonly Look[]; stop(): Promise<readonly Look[]> } {
  const looks: Look[] = [];
  const child = command.start(["--json", "status", "--watch"], { cwd: scene.repository });
  let rest = "";
  let stderr = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    const to = Date.now();
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const { at, runs } = JSON.parse(line);
      looks.push({ from: Date.parse(at), to, runs });
    }
  });
  const ended = new Promise<void>((resolve) => child.on("close", () => resolve()));
  return {
    looks,
    async stop() {
      child.kill("SIGINT");
      await ended;
      if (looks.length === 0) throw new Error(`the observer saw nothing: ${stderr}`);
      return looks;
    },
  };
}

import { spawn } from "node:child_process";
import { join } from "node:path";
import type { Scene } from "./scene.ts";
import type { Point } from "./crashing-adapters.ts";
import type { Leg } from "./scenarios.ts";
import type { WorkerParams, PassedPoint } from "./worker.ts";

export type WorkerEnd =
  | { readonly kind: "killed" }
  | { readonly kind: "ended"; readonly points: readonly PassedPoint[]; readonly outcome: string; readonly why: string }
  | { readonly kind: "failed"; readonly why: string };

/** One process that works on the run: to its end, or to the point where it is killed. */
export async function runWorker(scene: Scene, worker: string, leg: Leg, dieAt: Point | null): Promise<WorkerEnd> {
  const ended: WorkerParams = { agent: scene.agent, leg, dieAt, dieInPush: join(scene.root, "die-in-push") };
  const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", worker, JSON.stringify(ended)], {
    cwd: scene.clone,
    env: scene.env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const signal = await new Promise<string | null>((resolve, reject) => {
    child.on("error", reject);
    // Not "close": an orphan may hold the other end of its output.
    child.on("exit", (_, by) => resolve(by));
  });
  if (signal === "SIGKILL") return { kind: "killed" };
  await new Promise((resolve) => setImmediate(resolve));
  const printed = parseLast(stdout);
  if (printed === null)
    return { kind: "failed", why: stderr.trim() || `it printed nothing (${signal ?? "no signal"})` };
  const { kind, ...rest } = printed.outcome;
  return { kind: "ended", points: printed.points, outcome: kind, why: JSON.stringify(rest) };
}

function parseLast(
  text: string,
): { readonly points: readonly PassedPoint[]; readonly outcome: { readonly kind: string } } | null {
  try {
    return JSON.parse(text.trim().split("\n").at(-1) ?? "");
  } catch {
    return null;
  }
}

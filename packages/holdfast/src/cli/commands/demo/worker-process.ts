import { spawn } from "node:child_process";
import { HoldfastError } from "../../../core/error.ts";
import type { DemoRepository } from "./demo-repository.ts";

export interface Death {
  readonly place: string;
  readonly stage: string;
  readonly iteration: number;
  readonly visit: number;
}

export type WorkerEnd =
  | { readonly kind: "died"; readonly death: Death }
  | {
      readonly kind: "ended";
      readonly points: readonly string[];
      /** Index of the first point after the run's end was committed. */
      readonly ends: number;
      readonly outcome: string;
    };

/** One process that works on the demo's issue, to its end or to its death. */
export async function runWorker(
  repository: DemoRepository,
  params: {
    readonly death: { readonly points: string; readonly at: number } | null;
    /** The run to resume; null: start one. */
    readonly resume: string | null;
  },
): Promise<WorkerEnd> {
  const { death, resume } = params;
  const args = ["demo-worker", "--agent", repository.agent];
  if (resume !== null) args.push("--resume", resume);
  if (death !== null) args.push("--points", death.points, "--die-at", String(death.at));
  const child = spawn(process.execPath, [process.argv[1] ?? "", ...args], {
    cwd: repository.clone,
    env: { ...repository.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const exit = await new Promise<{ readonly status: number | null; readonly signal: string | null }>(
    (resolve, reject) => {
      child.on("error", reject);
      child.on("close", (status, signal) => resolve({ status, signal }));
    },
  );
  const said = lastLine(stdout);
  if (exit.signal === "SIGKILL" && said !== null && isDeath(said["died"])) return { kind: "died", death: said["died"] };
  const outcome = said?.["outcome"];
  const points = said?.["points"];
  const ends = said?.["ends"];
  if (Array.isArray(points) && typeof ends === "number" && isRecord(outcome))
    return { kind: "ended", points: points.map(String), ends, outcome: String(outcome["kind"]) };
  throw new HoldfastError({
    code: "INTERNAL",
    message: `The demo's worker ended with ${exit.signal ?? exit.status ?? "nothing"}: ${stderr.trim() || stdout.trim()}`,
    hint: "Run it again with --keep and look into the directory.",
  });
}

function lastLine(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(text.trim().split("\n").at(-1) ?? "");
    return isRecord(value) ? value : null;
  } catch {
    return null;
  }
}

function isDeath(value: unknown): value is Death {
  return isRecord(value) && typeof value["place"] === "string" && typeof value["visit"] === "number";
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

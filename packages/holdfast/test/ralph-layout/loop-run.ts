import { gunzipSync } from "node:zlib";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { Holdfast } from "../../src/holdfast.ts";
import { type Planes, type Trigger, emptyPlanes } from "@holdfast/core/checkpoint";
import type { NewEntry } from "@holdfast/core/journal";
import type { JsonObject } from "@holdfast/core/json";
import { parseRalphOptions } from "@holdfast/workflows/ralph/options";
import type { Reflection } from "@holdfast/workflows/ralph/iteration";
import { initialRalphState } from "@holdfast/workflows/ralph/state";

/** Runs of the ralph workflow in a store, without agents, to test what is written about them. */

export const LOOP = "ralph-fix-tests-a1b2c3d4";
export const DIRECTORY = `.aiwg/ralph/loops/${LOOP}/checkpoints`;

export async function beginLoop(holdfast: Pick<Holdfast, "store">, run = LOOP): Promise<void> {
  await holdfast.store.createRun({ id: run, workflow: "ralph", work: { kind: "task", text: "fix the tests" } });
}

export async function save(
  holdfast: Pick<Holdfast, "store">,
  params: {
    /** With the trigger `iteration`: the one that ends. */
    readonly iteration: number;
    readonly trigger?: Trigger;
    readonly run?: string;
    readonly loopId?: string | null;
    readonly stage?: string;
    readonly options?: JsonObject;
    readonly entries?: readonly NewEntry[];
    readonly extensions?: JsonObject;
  },
): Promise<number> {
  const { run = LOOP, trigger = "iteration", entries = [] } = params;
  const lease = await holdfast.store.takeLease({ run, label: "test" });
  const { checkpoint } = await holdfast.store.commit({
    lease,
    entries,
    checkpoint: { trigger, planes: planesOf({ ...params, trigger }) },
  });
  await holdfast.store.releaseLease(lease);
  return checkpoint?.sequence ?? 0;
}

function planesOf(params: {
  readonly iteration: number;
  readonly trigger: Trigger;
  readonly stage?: string;
  readonly loopId?: string | null;
  readonly options?: JsonObject;
  readonly extensions?: JsonObject;
}): Planes {
  const { iteration, trigger, stage = "iterate", options = {}, extensions = {} } = params;
  const planes = emptyPlanes({ workflow: "ralph", stage });
  const inputs = parseRalphOptions({ task: "fix the tests", until: "npm test", ...options });
  const memory = Array.from({ length: Math.min(3, iteration) }, (_, at) => reflection(iteration - at)).toReversed();
  const totals = { ...initialRalphState.totals, iterations: iteration, failed: iteration, tokens: 100 * iteration };
  const loopId = params.loopId === undefined ? LOOP : params.loopId;
  return {
    ...planes,
    // The commit that ends an iteration enters the next one.
    position: { ...planes.position, iteration: iteration + (trigger === "iteration" && stage === "iterate" ? 1 : 0) },
    context: { ...planes.context, values: { ...initialRalphState, loopId, memory, totals } },
    config: { ...planes.config, agent: "scripted", inputs },
    extensions,
  };
}

function reflection(iteration: number): Reflection {
  return {
    iteration,
    unitName: "loop",
    verdict: "failed",
    quality: 40,
    text: `Iteration ${iteration}: 2 tests fail`,
    learnings: ["mocks hide it"],
    signature: "s",
    failing: ["login"],
    lastSeen: iteration,
  };
}

export function readGz(path: string): JsonObject {
  return JSON.parse(gunzipSync(readFileSync(path)).toString());
}

export function names(root: string, directory = DIRECTORY): readonly string[] {
  return readdirSync(join(root, directory)).toSorted();
}

/** The hidden `demo-worker` command: the process that the demo kills at a chosen point. */
import { writeSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { Adapters } from "@holdfast/core/adapters";
import type { Forge } from "@holdfast/core/forge";
import type { ProgressEvent } from "@holdfast/core/progress";
import type { Branch } from "@holdfast/core/branch";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { parseCount } from "../parse-arguments.ts";

export const spec = {
  name: "demo-worker",
  summary: "the process that the demo kills",
  details: [
    "Starts a run of issue 1 in this directory, or resumes a run, and kills itself with SIGKILL at a given point. Its last line is JSON and names that point.",
  ],
  operands: [],
  consent: "reads",
  flags: {
    agent: { type: "text", value: "MODEL", about: "provider:model" },
    resume: { type: "text", value: "RUN", about: "resume this run instead of starting one", completes: "run" },
    points: { type: "text", value: "FILE", about: "the points of an uninterrupted run, in order", completes: "file" },
    "die-at": { type: "text", value: "N", about: "exit at this point, or at the next one" },
  },
  examples: [
    { line: "holdfast demo-worker --agent scripted:agent.json", about: "run without a kill, and print its points" },
    { line: "holdfast demo-worker --agent scripted:a.json --points p.json --die-at 7", about: "die there" },
  ],
  json: '{"died": {"place", "stage", "iteration", "stageAttempt"}}, or {"points": [...], "ends": index of the first point after the run has ended, "outcome": {...}}.',
  hidden: true,
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const dieAt = input.text("die-at");
  const known = await readPoints(input.text("points"));
  const target = dieAt === undefined ? Number.POSITIVE_INFINITY : parseCount("die-at", dieAt);
  const passed: string[] = [];
  let saved = 0;
  let ends = Number.POSITIVE_INFINITY;
  let at = { stage: "", iteration: 0, stageAttempt: 0 };
  const pass = (point: KillPoint): void => {
    if (!passed.includes(point.id)) passed.push(point.id);
    // If a kill made the run skip the target point for good, the process dies at the next point instead.
    if ((known.get(point.id) ?? -1) < target) return;
    // Writes directly to the file descriptor, because a kill discards queued output.
    writeSync(1, `${JSON.stringify({ died: { place: point.place, ...at } })}\n`);
    process.kill(process.pid, "SIGKILL");
  };
  const listen = (event: ProgressEvent): void => {
    if (event.kind === "stage_entered")
      at = { stage: event.stage, iteration: event.iteration, stageAttempt: event.stageAttempt };
    const point = pointOf(event, at.stageAttempt);
    if (point !== null) pass(point);
    if (point !== null && event.kind === "checkpoint") saved = passed.indexOf(point.id);
    if (event.kind === "ended") ends = saved;
  };
  const { openHoldfast } = await import("../../open.ts");
  await using holdfast = await openHoldfast({
    cwd: shell.cwd,
    adapters: (adapters) => crashingAdapters(adapters, (what) => pass(effectPoint(what, at.stageAttempt))),
  });
  const watching = { listen, signal: shell.signal };
  const run = input.text("resume");
  const { outcome } =
    run === undefined
      ? await holdfast.start({ work: { kind: "issue", number: 1 }, agent: input.text("agent") ?? null, ...watching })
      : await holdfast.resume({ run, ...watching });
  shell.write(`${JSON.stringify({ points: passed, ends: Math.min(ends, passed.length), outcome })}\n`);
  return outcome.kind === "done" ? "done" : "failed";
}

async function readPoints(file: string | undefined): Promise<ReadonlyMap<string, number>> {
  if (file === undefined) return new Map();
  // The demo wrote this file, so its content is trusted.
  const ids: readonly string[] = JSON.parse(await readFile(file, "utf8"));
  return new Map(ids.map((id, index) => [id, index]));
}

/** Wraps the adapters to report each external effect before the engine can record it: the worst moments to die at. */
function crashingAdapters(adapters: Adapters, happened: (what: string) => void): Adapters {
  return {
    ...adapters,
    forge: adapters.forge === null ? null : dyingForge(adapters.forge, happened),
    branches: {
      of: async (worktree) => dyingBranch(await adapters.branches.of(worktree), happened),
      asking: (folder) => adapters.branches.asking(folder),
    },
  };
}

function dyingForge(forge: Forge, happened: (what: string) => void): Forge {
  const marked = (mark: string): Forge => dyingForge(forge.marked(mark), happened);
  return after(
    { ...forge, marked },
    {
      createPullRequest: () => happened("the pull request was opened"),
      updatePullRequest: () => happened("the pull request was changed"),
      comment: () => happened("a comment was made"),
    },
  );
}

function dyingBranch(branch: Branch, happened: (what: string) => void): Branch {
  return after(branch, {
    commit: () => happened("the files were committed"),
    push: () => happened("the branch was pushed"),
  });
}

/**
 * Calls the follower after each of these methods. Everything else, including getters and private state, reaches the
 * target unchanged.
 */
function after<T extends object>(target: T, followers: Readonly<Record<string, () => void>>): T {
  return new Proxy(target, {
    get(object, name) {
      const value: unknown = Reflect.get(object, name, object);
      if (typeof value !== "function") return value;
      const follow = typeof name === "string" && Object.hasOwn(followers, name) ? followers[name] : undefined;
      if (follow === undefined) return value.bind(object);
      return async (...args: readonly unknown[]) => {
        const result: unknown = await Reflect.apply(value, object, args);
        follow();
        return result;
      };
    },
  });
}

/** A moment at which the demo may kill the worker: its id within the run, and a description. */
interface KillPoint {
  readonly id: string;
  readonly place: string;
}

/** null: the event is not a kill point. A resumed run passes the same points with the same ids. */
function pointOf(event: ProgressEvent, stageAttempt: number): KillPoint | null {
  switch (event.kind) {
    case "stage_entered":
      return { id: `${event.stageAttempt} entered`, place: `as ${event.stage} began` };
    case "stage_ended":
      return { id: `${stageAttempt} ended`, place: `as ${event.stage} ended` };
    case "step_started":
      return { id: `${stageAttempt} ${event.step} began`, place: `as the step ${event.step} began` };
    case "step_finished":
      return { id: `${stageAttempt} ${event.step} finished`, place: `right after the step ${event.step}` };
    case "agent": {
      if (event.event.kind !== "tool") return null;
      const { name, detail } = event.event;
      return { id: `${stageAttempt} ${name} ${detail}`, place: `while the agent was editing ${detail}` };
    }
    case "checkpoint": {
      const { trigger, name } = event.checkpoint;
      return { id: `${stageAttempt} saved ${trigger} ${name ?? ""}`, place: "right after a checkpoint" };
    }
    case "effect": {
      const what = (event.key.split("/").at(-1) ?? event.key).replace(/\.\d+$/, "");
      return event.what === "intended"
        ? { id: `${event.key} intended`, place: `about to ${DEEDS[what] ?? what}` }
        : { id: `${event.key} settled`, place: `right after the ${what} was written down` };
    }
    default:
      return null;
  }
}

const DEEDS: Readonly<Record<string, string>> = { push: "push", "pull-request": "open the pull request" };

/** The moment after an external effect and before its record: the worst moment to die at. */
function effectPoint(what: string, stageAttempt: number): KillPoint {
  return { id: `${stageAttempt} ${what}`, place: `when ${what}, before that could be written down` };
}

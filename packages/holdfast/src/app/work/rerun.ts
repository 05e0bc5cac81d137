import type { Checkpoint } from "../../core/checkpoint/checkpoint.ts";
import { MAY_PUBLISH } from "../../core/effect/effect-decision.ts";
import { HoldfastError } from "../../core/error.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Amounts } from "../../core/position/position.ts";
import { compareRuns, readOutcomes } from "../../core/replay/compare-runs.ts";
import type { RunsCompared } from "../../core/replay/compare-runs.ts";
import { RERUN_OF } from "../../core/run/plan-begin.ts";
import { makeRunId } from "../../core/run/run-id.ts";
import type { RunSummary } from "../../core/run/run.ts";
import { newestWhole } from "../../engine/conduct/newest-whole.ts";
import type { RunOutcome } from "../../engine/outcome.ts";
import type { WorkParts } from "../../engine/work-parts.ts";
import { isOwnWorkflow } from "./choose-workflow.ts";
import type { StartPlan } from "./plan-start.ts";
import type { StartParams } from "./start-params.ts";

/** What a run that was executed again came to, beside the first one. */
export interface RerunReport {
  readonly of: string;
  readonly run: string;
  readonly outcome: RunOutcome;
  /** `a` is the first run, `b` this one. */
  readonly compared: RunsCompared;
  readonly spent: { readonly a: Amounts; readonly b: Amounts };
  readonly ended: { readonly a: string; readonly b: string };
}

/**
 * The same work, agent and mode, from the commit at which the first one began; options and limits as the first one had them last. One that was raised on the
 * way could not come as far again with those of its beginning.
 */
export async function planRerun(
  parts: WorkParts,
  run: RunSummary,
  plan: (params: StartParams) => Promise<StartPlan>,
  more: Pick<StartParams, "workflow" | "id"> & { readonly publish: boolean },
): Promise<StartPlan> {
  const first = await firstCheckpoint(parts, run.id);
  const { config, files } = first.planes;
  const last = ((await newestWhole(parts.store, run.id)).checkpoint ?? first).planes;
  const { worktree: _ofFirst, [MAY_PUBLISH]: _consent, ...labels } = run.labels;
  const consent = more.publish ? { [MAY_PUBLISH]: true } : {};
  const own = isOwnWorkflow(run.workflow) ? { workflow: run.workflow } : {};
  const planned = await plan({
    ...own,
    ...(more.workflow === undefined ? {} : { workflow: more.workflow }),
    id: more.id ?? makeRunId({ work: run.work, random: parts.random() }),
    work: run.work,
    options: last.config.inputs,
    agent: config.agent === null ? null : [config.agent, config.model].filter((part) => part !== null).join(":"),
    limit: last.position.budget.limit,
    labels: { ...labels, ...consent, [RERUN_OF]: run.id } satisfies JsonObject,
    workspace: files === null ? "none" : "new",
    mode: config.mode,
    ...(config.seed === null ? {} : { seed: config.seed }),
  });
  const { place } = planned;
  if (place === null || files === null || files.head === null) return planned;
  return Object.assign(planned, {
    place: { ...place, base: { branch: place.base?.branch ?? null, commit: files.head } },
  });
}

export async function compareRerun(
  parts: WorkParts,
  params: { readonly of: string; readonly run: string; readonly outcome: RunOutcome },
): Promise<RerunReport> {
  const [a, b] = await Promise.all([params.of, params.run].map((run) => standing(parts, run)));
  if (a === undefined || b === undefined) throw new TypeError("two runs were asked for");
  return {
    ...params,
    compared: compareRuns(a.outcomes, b.outcomes, [params.of, params.run]),
    spent: { a: a.spent, b: b.spent },
    ended: { a: a.state, b: b.state },
  };
}

async function standing(parts: WorkParts, run: string) {
  const { store } = parts;
  const [summary, latest] = await Promise.all([store.getRun(run), store.latest(run)]);
  const spent: Amounts = latest?.planes.position.budget.spent ?? { tokens: 0, microUsd: 0, milliseconds: 0 };
  const outcomes = readOutcomes(await Array.fromAsync(store.readJournal({ run })));
  return { outcomes, spent, state: summary?.state.kind ?? "open" };
}

/** Retention may have dropped it: then there is no telling what the run began with. */
async function firstCheckpoint(parts: WorkParts, run: string): Promise<Checkpoint> {
  try {
    return await parts.store.getCheckpoint({ run, sequence: 1 });
  } catch (cause) {
    if (!(cause instanceof HoldfastError)) throw cause;
    throw new HoldfastError({
      code: cause.code,
      message: `Run ${run} cannot be executed again: the checkpoint with which it began is not there (${cause.message})`,
      hint: "Start a new run with `holdfast run`. Runs that are recorded keep it: `--mode logged`.",
      data: { run },
      cause,
    });
  }
}

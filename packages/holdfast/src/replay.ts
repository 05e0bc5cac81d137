/**
 * Replays a recorded run from its record, executes a run again, and checks a strict run against its record before it
 * continues.
 */
import { join } from "node:path";
import { type Adapters, findRunWorkspace, snapshotParams } from "@holdfast/core/adapters";
import type { Checkpoint } from "@holdfast/core/checkpoint";
import { MAY_PUBLISH } from "@holdfast/core/effects";
import type { Forge } from "@holdfast/core/forge";
import type { Json, JsonObject } from "@holdfast/core/json";
import type { Replayer } from "@holdfast/core/replayer";
import type { Amounts } from "@holdfast/core/position";
import type { RunOutcome } from "@holdfast/core/progress";
import { type Wrap, eachForgeQuestion, eachRemoteQuestion } from "@holdfast/core/record-run";
import { type RecordedLookup, changedVariables, parseRecordedCall } from "@holdfast/core/recorded-calls";
import {
  type Divergence,
  type RunsCompared,
  compareRuns,
  divergenceText,
  readOutcomes,
} from "@holdfast/core/recording";
import { type ReplayReport, replayRun } from "@holdfast/core/replay";
import { RERUN_OF, type RunSummary, makeRunId } from "@holdfast/core/run";
import { knownRun, newestUsable } from "@holdfast/core/store";
import { openMemoryStore } from "@holdfast/core/store-memory";
import { capture } from "@holdfast/core/values";
import type { Workflow } from "@holdfast/core/workflow";
import { createScratchRepository } from "@holdfast/git/repository";
import { openGitWorkspaces } from "@holdfast/git/workspaces";
import { ERROR_CODES, HoldfastError } from "@holdfast/platform/error";
import { isBuiltIn } from "@holdfast/workflows/built-in";
import { currentEnvironment, maskOwnSecrets } from "./adapters.ts";
import { type StartParams, type StartPlan, pluginOf } from "./plan-start.ts";

/**
 * Works in a temporary repository and an in-memory store, which are removed afterwards. The run and its repository do
 * not change.
 */
export async function replay(
  adapters: Adapters,
  params: {
    readonly run: RunSummary;
    readonly to: number | null;
    /** Custom workflow of the run; undefined: a built-in one. */
    readonly workflow: Workflow | undefined;
    readonly signal: AbortSignal;
  },
): Promise<ReplayReport> {
  const { run, to, workflow, signal } = params;
  const { workspaces } = adapters;
  // The record answers every call, so nothing needs a worktree that is set up.
  const { worktreeSetup: _worktreeSetup, ...others } = adapters;
  const plugin = workflow === undefined ? await pluginOf(run) : { create: () => ({ workflow }) };
  await using scratch = workspaces === null ? null : await createScratchRepository(workspaces.commonDir);
  const places = scratch === null ? null : await openGitWorkspaces(scratch.root);
  return await replayRun({
    adapters,
    run,
    to,
    signal,
    mask: maskOwnSecrets,
    worktree: join(scratch?.root ?? "", "worktree"),
    workflow: (played, options) => plugin.create(options, played).workflow,
    scratch: (replayer) => ({
      ...others,
      store: openMemoryStore({ clock: { now: () => replayer.time } }),
      workspaces: places,
      clock: { now: () => replayer.time, elapsed: () => 0 },
      liveness: () => "dead",
      worktreePath: undefined,
      agent: (provider) => refuse(`agent ${provider}`),
      checkpointEveryMs: null,
      forge: adapters.forge === null ? null : playedForge(adapters.forge, replayer),
      branches: {
        of: async (worktree) => eachRemoteQuestion(await adapters.branches.of(worktree), played(replayer)),
        asking: () => refuse("question to the remote"),
      },
      commands: {
        run: ({ command }) => refuse(`command ${command}`),
        endMarked: () => Promise.resolve({ ended: 0, supported: true }),
        findUnmarked: () => [],
      },
      syntax: { check: () => refuse("syntax gate") },
      wait: () => Promise.resolve(),
    }),
  });
}

export interface ReplayRequest {
  readonly run: string;
  /** Sequence of the last checkpoint to reproduce; absent: to the end of the record. */
  readonly to?: number;
  /** Required for runs of a custom workflow. */
  readonly workflow?: Workflow;
  readonly signal?: AbortSignal;
}

/**
 * Fails every call that would reach beyond the temporary repository: the record must answer these calls before they get
 * here.
 */
function refuse(what: string): never {
  throw new HoldfastError({
    code: "INTERNAL",
    message: `A replay must not start the ${what}`,
  });
}

function playedForge(forge: Forge, replayer: Replayer): Forge {
  return eachForgeQuestion(forge, () => playedForge(forge, replayer), played(replayer));
}

function played(replayer: Replayer): Wrap {
  return <A extends readonly unknown[], R>(method: string) =>
    async (...args: A): Promise<R> => {
      const asked = args.map((arg) => capture(arg));
      // The recorded answer to the same question.
      return await Promise.resolve(answerOf(replayer.lookUp(method, asked)) as R);
    };
}

function answerOf(answer: RecordedLookup["answer"]): Json {
  if (answer.kind === "answered") return answer.value;
  const code = ERROR_CODES.find((known) => known === answer.code) ?? "FORGE_FAILED";
  throw new HoldfastError({ code, message: answer.message, retry: "later" });
}

/** The result of a run that was executed again, compared with the first one. */
export interface RerunReport {
  readonly of: string;
  readonly run: string;
  readonly outcome: RunOutcome;
  /** `a` is the first run, `b` the new one. */
  readonly compared: RunsCompared;
  readonly spent: { readonly a: Amounts; readonly b: Amounts };
  readonly ended: { readonly a: string; readonly b: string };
}

/**
 * Plans a run with the same work, agent and mode, from the commit at which the first one began. Options and limits are
 * the last ones of the first run: with its initial limits, a run whose limit was raised could not get as far again.
 */
export async function planRerun(
  adapters: Adapters,
  run: RunSummary,
  plan: (params: StartParams) => Promise<StartPlan>,
  more: Pick<StartParams, "workflow" | "id"> & { readonly publish: boolean },
): Promise<StartPlan> {
  const first = await firstCheckpoint(adapters, run.id);
  const { config, files } = first.planes;
  const last = ((await newestUsable(adapters.store, run.id)).checkpoint ?? first).planes;
  const { worktree: _ofFirst, [MAY_PUBLISH]: _consent, ...labels } = run.labels;
  const consent = more.publish ? { [MAY_PUBLISH]: true } : {};
  const own = isBuiltIn(run.workflow) ? { workflow: run.workflow } : {};
  const planned = await plan({
    ...own,
    ...(more.workflow === undefined ? {} : { workflow: more.workflow }),
    id: more.id ?? makeRunId({ work: run.work, random: adapters.random() }),
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
  adapters: Adapters,
  params: { readonly of: string; readonly run: string; readonly outcome: RunOutcome },
): Promise<RerunReport> {
  const [a, b] = await Promise.all([params.of, params.run].map((run) => readEnd(adapters, run)));
  if (a === undefined || b === undefined) throw new TypeError("two runs were asked for");
  return {
    ...params,
    compared: compareRuns(a.outcomes, b.outcomes, [params.of, params.run]),
    spent: { a: a.spent, b: b.spent },
    ended: { a: a.state, b: b.state },
  };
}

async function readEnd(adapters: Adapters, run: string) {
  const { store } = adapters;
  const [summary, latest] = await Promise.all([store.getRun(run), store.latest(run)]);
  const spent: Amounts = latest?.planes.position.budget.spent ?? { tokens: 0, microUsd: 0, milliseconds: 0 };
  const outcomes = readOutcomes(await Array.fromAsync(store.readJournal({ run })));
  return { outcomes, spent, state: summary?.state.kind ?? "active" };
}

/** Throws if retention has dropped it, because what the run began with is then unknown. */
async function firstCheckpoint(adapters: Adapters, run: string): Promise<Checkpoint> {
  try {
    return await adapters.store.getCheckpoint({ run, sequence: 1 });
  } catch (cause) {
    if (!(cause instanceof HoldfastError)) throw cause;
    throw new HoldfastError({
      code: cause.code,
      message: `Run ${run} cannot be executed again: its first checkpoint is missing (${cause.message})`,
      hint: "Start a new run with `holdfast run`. Recorded runs keep it: `--mode logged`.",
      data: { run },
      cause,
    });
  }
}

/**
 * Checks a run in mode "strict" before it continues. The current workflow must reproduce the record, agents must get
 * the same environment, and the files must match the newest checkpoint. Throws REPLAY_DIVERGED with the first
 * difference. Changes nothing.
 */
export async function rejectChangedRecording(
  adapters: Adapters,
  params: {
    readonly run: string;
    readonly workflow: Workflow | undefined;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const run = await knownRun(adapters.store, params.run);
  const report = await replay(adapters, { run, to: null, workflow: params.workflow, signal: params.signal });
  const [problem] = report.problems;
  if (problem !== undefined)
    throw new HoldfastError({
      code: problem.code === "TREE_MISSING" ? "TREE_MISSING" : "STORE_CORRUPT",
      message: `The record of run ${run.id} is damaged: ${problem.what}`,
      hint: `\`holdfast verify ${run.id}\` shows all of it. Nothing was changed.`,
      data: { run: run.id, problems: report.problems },
    });
  const found =
    report.divergence ?? (await changedEnvironment(adapters, run.id)) ?? (await changedFiles(adapters, run));
  if (found !== null)
    throw new HoldfastError({
      code: "REPLAY_DIVERGED",
      message: `Run ${run.id} is strict, and something differs from its record: ${divergenceText(found)}`,
      hint: `Undo the change, or continue in a new run: \`holdfast fork ${run.id}@latest\`. Nothing was changed.`,
      retry: "ask",
      data: { run: run.id, divergence: found },
    });
}

async function changedEnvironment(adapters: Adapters, run: string): Promise<Divergence | null> {
  const known = new Map<string, Readonly<Record<string, string>>>();
  let last:
    | { readonly hash: string; readonly entry: number; readonly step: string | null; readonly stageAttempt: number }
    | undefined;
  for await (const entry of adapters.store.readJournal({ run })) {
    if (entry.kind !== "call.recorded") continue;
    const call = parseRecordedCall(entry);
    if (call.kind === "forge" || call.kind === "clock") continue;
    const { hash, values } = call.kind === "agent" ? call.ran.environment : call.environment;
    if (values !== null) known.set(hash, values);
    last = { hash, entry: entry.entry, step: call.step, stageAttempt: call.stageAttempt };
  }
  const now = currentEnvironment();
  if (last === undefined || last.hash === now.hash) return null;
  const before = known.get(last.hash) ?? {};
  const [name = "hash"] = changedVariables(before, now.values);
  const { stage, iteration } = (await adapters.store.latest(run))?.planes.position ?? { stage: "", iteration: 0 };
  return {
    where: { stage, iteration, stageAttempt: last.stageAttempt, step: last.step, checkpoint: null, entry: last.entry },
    what: "environment",
    field: `$${name}`,
    expected: before[name] ?? null,
    actual: now.values[name] ?? null,
  };
}

/** Changes of a step that died half-way are not a difference: the resume reverts them before it does anything else. */
async function changedFiles(
  adapters: Adapters,
  run: Parameters<typeof findRunWorkspace>[1],
): Promise<Divergence | null> {
  const latest = await adapters.store.latest(run.id);
  const workspace = await findRunWorkspace(adapters, run);
  const files = latest?.planes.files ?? null;
  if (latest === undefined || files === null || workspace === undefined || adapters.workspaces === null) return null;
  const underWay = await isUnderWay(adapters, run.id, latest.entry);
  if (underWay || latest.planes.position.stageAttempt.running !== undefined) return null;
  const look = await workspace.look(snapshotParams(adapters));
  if (look.tree === files.tree) return null;
  const { files: changed } = await adapters.workspaces.diff({ from: files.tree, to: look.tree, format: "names" });
  const { stage, iteration, stageAttempt } = latest.planes.position;
  return {
    where: {
      stage,
      iteration,
      stageAttempt: stageAttempt.number,
      step: null,
      checkpoint: latest.sequence,
      entry: latest.entry,
    },
    what: "files",
    field: changed[0]?.path ?? "tree",
    expected: files.tree,
    actual: look.tree,
  };
}

async function isUnderWay(adapters: Adapters, run: string, after: number): Promise<boolean> {
  for await (const { kind, body } of adapters.store.readJournal({ run, after }))
    if (kind === "step.started" && body["files"] === true) return true;
  return false;
}

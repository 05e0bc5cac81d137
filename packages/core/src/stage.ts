// Executes a stage function with its context, ends its work when the run must stop, and provides what a stage may call.

import { HoldfastError, describeValue } from "@holdfast/platform/error";
import { unseenText } from "./commands.ts";
import { runMark } from "./adapters.ts";
import { runAgent } from "./agent-call.ts";
import { maskAndReport } from "./agent-result.ts";
import { fenceOf } from "./agent-session.ts";
import { runEffect } from "./effect.ts";
import { type JsonSafe, isJsonObject } from "./json.ts";
import { type ArgumentKind, checkArgument, checkOptions } from "./options.ts";
import { prepareWorktree } from "./prepare-worktree.ts";
import { reasonOf } from "./progress.ts";
import { restoreRunFiles } from "./restore-files.ts";
import { type RunSession, emitNote } from "./run-session.ts";
import { dropSideWorktree, mergeSideWorktree, openSideWorktree } from "./side-worktrees.ts";
import { Recorder, stageGraph } from "./stage-state.ts";
import { StageExecution, runStep } from "./step.ts";
import { startWaiting, waitForTimeBudget, waitHere, decide } from "./waiting.ts";
import type { StageResult } from "./transitions.ts";
import type {
  AgentCall,
  AgentReport,
  EffectOutcome,
  EffectSpec,
  StageContext,
  StageFunction,
  StepOptions,
  StepScope,
  Workflow,
} from "./workflow.ts";

/** How long steps may take to end after they were aborted. A later step cannot write any more. */
const GRACE_MS = 10_000;

/**
 * Executes a stage function to its end, or until work must stop; then it throws the cause. It ignores a result of the stage in that case,
 * because it may come from a rejected call. The next execution concludes the same.
 */
export async function runStage<S extends object>(
  runSession: RunSession,
  params: {
    readonly workflow: Workflow<S>;
    readonly work: StageFunction<S>;
  },
): Promise<StageResult<S>> {
  const { halt } = runSession;
  const execution = new StageExecution(runSession);
  const context = createStageContext(execution, params.workflow);
  let result: StageResult<S> | undefined;
  const working = (async () => {
    try {
      result = await params.work(context);
    } catch (error) {
      // Aborts the other work that the stage started.
      halt.stop(error instanceof Error ? error : new Error(String(error)));
    }
    await execution.idle();
  })();
  await Promise.race([working, halt.halted]);
  if (halt.cause !== undefined) {
    await endWork(runSession, working);
    execution.close();
    throw halt.cause;
  }
  await working;
  execution.close();
  execution.checkAsked();
  if (!isResult(result)) throw badResult(execution.stage, result);
  return result;
}

/** A stage of plain JavaScript may forget its result. */
function isResult<S>(result: StageResult<S> | undefined): result is StageResult<S> {
  return (
    typeof result === "object" &&
    result !== null &&
    typeof result.event === "string" &&
    typeof result.reason === "string"
  );
}

function badResult(stage: string, result: unknown): HoldfastError {
  return new HoldfastError({
    code: "WORKFLOW_INVALID",
    message: `Stage ${stage} returned ${describeValue(result)}, which names no event and reason`,
    hint: 'Return an event of the transition table and why, such as { event: "done", reason: "all tests pass" }. Then resume the run.',
    data: { stage },
  });
}

/**
 * Ends the processes of steps at once. An effect or a forge call gets time for its answer, because otherwise its outcome would be unknown.
 * After a lost lease the new holder may run processes under the same mark, so ours end only by their abort signal.
 */
async function endWork(runSession: RunSession, working: Promise<void>): Promise<void> {
  const { adapters, run, halt } = runSession;
  const end = async (mark: string): Promise<void> => {
    if (isLeaseLost(halt.cause)) return;
    // The next resume ends what cannot be ended now; the current state is saved all the same.
    const unseen = await adapters.commands
      .endMarked(mark)
      .then(unseenText, (error: unknown) => `Processes of the run may be left: ${reasonOf(error)}`);
    if (unseen !== null) runSession.emit({ kind: "note", text: unseen });
  };
  await end(`${runMark(adapters, run.id)}/${runSession.attempt.number}`);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const grace = new Promise<"late">((resolve) => {
    timer = setTimeout(resolve, GRACE_MS, "late");
  });
  const ended = await Promise.race([working, grace]);
  clearTimeout(timer);
  if (ended === "late") await end(runMark(adapters, run.id));
}

function isLeaseLost(cause: Error | undefined): boolean {
  return cause instanceof HoldfastError && cause.code === "LEASE_LOST";
}

/** The context of one stage execution. It consists of plain functions, so that a stage may destructure it. */
function createStageContext<S extends object>(execution: StageExecution, workflow: Workflow<S>): StageContext<S> {
  const { runSession } = execution;
  const recorder = new Recorder(execution, workflow);
  return {
    run: runSession.run,
    get position() {
      return runSession.position;
    },
    get state() {
      return recorder.state;
    },
    inputs: runSession.state.inputs,
    extensions: runSession.state.extensions,
    config: runSession.state.config,
    signal: runSession.halt.signal,
    workspace: runSession.workspace,
    now: () => readClock(runSession),

    step<T extends JsonSafe<T>>(
      name: string,
      fn: (scope: StepScope) => Promise<T> | T,
      options?: StepOptions,
    ): Promise<T> {
      checkArgument("step", "its name", name, "text");
      checkArgument("step", "its function", fn, "function");
      if (options !== undefined) checkOptions("step", options, STEP_OPTIONS);
      // The recorded result is a capture of what fn returned, now or before, so the cast is safe.
      return runStep(execution, name, fn, options) as Promise<T>;
    },
    async effect<R extends JsonSafe<R>>(spec: EffectSpec<R>): Promise<EffectOutcome<R>> {
      checkMembers("effect", spec, {
        purpose: "text",
        kind: "text",
        target: "text",
        lookUp: "function",
        act: "function",
      });
      // The cast is safe as above; the type of a receipt that the target reports is the spec's own responsibility.
      return (await runEffect(execution, spec)) as EffectOutcome<R>;
    },
    async agent(call: AgentCall) {
      checkMembers("agent", call, { name: "text", role: "text", prompt: "text" });
      return await askAboutDenial(execution, call, await runAgent(execution, call));
    },
    prepareWorktree: () => prepareWorktree(execution, runSession.workspace),
    sideWorktree(name) {
      checkArgument("sideWorktree", "its name", name, "text");
      return openSideWorktree(execution, name);
    },
    mergeSideWorktree: (name, params) => mergeSideWorktree(execution, name, params),
    dropSideWorktree: (sideWorktree) => dropSideWorktree(execution, sideWorktree),
    sleep(name, milliseconds) {
      checkArgument("sleep", "its name", name, "text");
      checkArgument("sleep", "its time", milliseconds, "amount");
      return sleep(execution, name, milliseconds);
    },
    wait(waiting) {
      checkMembers("wait", waiting, { for: "text", reason: "text" });
      const { for: what, reason, until } = waiting;
      return startWaiting(execution, { for: what, reason, until: until ?? null });
    },
    decide(question) {
      checkMembers("decide", question, { name: "text", question: "text", options: "texts" });
      return decide(execution, question);
    },
    async checkpoint(params) {
      checkMembers("checkpoint", params, { trigger: "text" });
      const { trigger, name } = params;
      await execution.busyOnce(() => runSession.save({ trigger, ...(name === undefined ? {} : { name }) }));
    },
    restoreFiles(name, checkpoint) {
      checkArgument("restoreFiles", "its name", name, "text");
      checkMembers("restoreFiles", checkpoint, { sequence: "count" });
      return restoreFiles(execution, name, checkpoint);
    },
    record<E extends JsonSafe<E>>(name: string, event: E): Promise<E> {
      checkArgument("record", "its name", name, "text");
      // A capture has the same shape as its source, and the journal holds the capture.
      return recorder.record(name, event) as Promise<E>;
    },
    graph: stageGraph(execution),
    fence(call) {
      checkArgument("fence", "the name of its call", call, "text");
      return fenceOf(runSession, call);
    },
    async mask(what, text) {
      checkArgument("mask", "its text", text, "text");
      execution.check();
      return await execution.busy(() => maskAndReport(runSession, what, text));
    },
    async note(text, output) {
      checkArgument("note", "its text", text, "text");
      await execution.busyOnce(() => emitNote(runSession, text, output));
    },
  };
}

const STEP_OPTIONS = {
  title: "text",
  changesFiles: "flag",
  risk: "text",
  artifacts: "texts",
} satisfies Readonly<Record<keyof StepOptions, ArgumentKind>>;

/** Throws USAGE if the argument is not an object, or one of these members is of another kind. */
function checkMembers(call: string, given: object, kinds: Readonly<Record<string, ArgumentKind>>): void {
  checkArgument(call, "its argument", given, "object");
  for (const [name, kind] of Object.entries(kinds)) checkArgument(call, name, Reflect.get(given, name), kind);
}

/** A clock reading that decides something is part of the record. */
function readClock({ adapters }: StageExecution["runSession"]): number {
  const { clock, recorder } = adapters;
  return recorder === undefined ? clock.now() : recorder.read(clock.now());
}

/** A clock that jumped back must not make a sleep longer than requested. */
async function sleep(execution: StageExecution, name: string, milliseconds: number): Promise<void> {
  const { adapters, halt } = execution.runSession;
  const until = Number(await runStep(execution, name, () => adapters.clock.now() + milliseconds));
  const rest = Math.min(milliseconds, until - adapters.clock.now());
  if (rest > 0) {
    await waitForTimeBudget(execution);
    await waitHere(execution.runSession, rest);
  }
  halt.check();
}

/** The same denial in a second call would repeat in every further one. So the user decides, instead of another iteration. */
async function askAboutDenial(execution: StageExecution, call: AgentCall, report: AgentReport): Promise<AgentReport> {
  const { runSession } = execution;
  const { cause, message } = report;
  if (cause !== "permission_denied" || message === null) return report;
  const name = deniedStep(call);
  if (!Object.hasOwn(runSession.attempt.steps, name) && !(await isRepeated(execution, call.name, message)))
    return report;
  const answer = await decide(execution, {
    name,
    question: `The same was denied in two calls: ${message}. Allow everything from now on (as --yolo does), continue without it, or stop?`,
    options: ["allow", "continue", "stop"],
  });
  if (answer === "stop") runSession.halt.abort(`Stopped by the user: ${message}`);
  if (answer === "allow" && runSession.state.position.yolo !== true)
    await runSession.append({ kind: "yolo.allowed", body: {} });
  return report;
}

export function deniedStep({ name }: AgentCall): string {
  return `${name}/denied`;
}

async function isRepeated({ runSession }: StageExecution, step: string, message: string): Promise<boolean> {
  for await (const { kind, body } of runSession.adapters.store.readJournal({ run: runSession.run.id })) {
    if (kind !== "step.finished" || (body["stageAttempt"] === runSession.attempt.number && body["step"] === step))
      continue;
    const result = body["result"] ?? null;
    if (isJsonObject(result) && result["cause"] === "permission_denied" && result["message"] === message) return true;
  }
  return false;
}

async function restoreFiles(
  execution: StageExecution,
  name: string,
  checkpoint: { readonly run?: string; readonly sequence: number },
): Promise<{ readonly tree: string }> {
  const { runSession } = execution;
  const { run = runSession.run.id, sequence } = checkpoint;
  const known = execution.claim(name);
  // The result was recorded below.
  if (known !== undefined) return known as { readonly tree: string };
  return await execution.busy(async () => {
    let result = { tree: "" };
    runSession.fileSteps += 1;
    await restoreRunFiles(runSession, {
      from: run,
      to: sequence,
      trigger: "before_restore",
      why: `before the files of ${run}@${sequence}`,
      finish: (tree) => {
        if (tree === null) throw noFiles(run, sequence);
        result = { tree };
        return [execution.finished(name, { result, spent: null })];
      },
    });
    runSession.emit({ kind: "step_finished", step: name, replayed: false });
    return result;
  });
}

function noFiles(run: string, sequence: number): HoldfastError {
  return new HoldfastError({
    code: "RESTORE_REFUSED",
    message: `Checkpoint ${run}@${sequence} holds no files that could be put back, or the run has no worktree`,
    hint: "Only checkpoints taken in a git worktree hold files.",
  });
}

// Records the outside calls of a run: wraps commands, forge and branches so that requests and answers reach the recorder.

import { HoldfastError } from "@holdfast/platform/error";
import type { Adapters } from "./adapters.ts";
import { type Agent, chooseAgent } from "./agent.ts";
import type { ExecutionConfig, FilesPlane } from "./checkpoint.ts";
import type { Commands } from "./commands.ts";
import type { Forge } from "./forge.ts";
import type { AskedAgent, FileMark, EventRecorder, RecordedAgent, CallRecorder } from "./recorded-calls.ts";
import type { RunSession } from "./run-session.ts";
import type { AgentCall } from "./workflow.ts";
import type { Branch } from "./branch.ts";

/** Returns the same adapters, with every request and answer noted in the recorder. The result is for one run only. */
export function recordingParts(adapters: Adapters, recorder: CallRecorder): Adapters {
  return {
    ...adapters,
    recorder,
    commands: tapedCommands(adapters, recorder),
    forge: adapters.forge === null ? null : tapedForge(adapters.forge, recorder),
    branches: {
      of: async (worktree) => eachRemoteQuestion(await adapters.branches.of(worktree), tapedQuestion(recorder)),
      asking: (folder) => adapters.branches.asking(folder),
    },
  };
}

function tapedCommands({ commands, store }: Adapters, recorder: CallRecorder): Commands {
  const own = `${store.id}/`;
  return {
    endMarked: (mark) => commands.endMarked(mark),
    findUnmarked: (params) => commands.findUnmarked(params),
    async run(params) {
      const result = await commands.run(params);
      if (params.unrecorded === true) return result;
      const { command, mark, timeoutMs, env = {} } = params;
      const [, stageAttempt, step] =
        (mark.startsWith(own) && /^[^/]+\/(\d+)\/(.+)$/s.exec(mark.slice(own.length))) || [];
      recorder.note({
        kind: "command",
        stageAttempt: stageAttempt === undefined ? recorder.stageAttempt : Number(stageAttempt),
        step: step ?? null,
        command: recorder.mask(command),
        env: Object.fromEntries(Object.entries(env).map(([name, value]) => [name, recorder.mask(value)])),
        timeoutMs,
        environment: recorder.environment(),
        result: recorder.masked(result),
      });
      return result;
    },
  };
}

function tapedForge(forge: Forge, recorder: CallRecorder): Forge {
  return eachForgeQuestion(forge, (mark) => tapedForge(forge.marked(mark), recorder), tapedQuestion(recorder));
}

function tapedQuestion(recorder: CallRecorder): Wrap {
  return <A extends readonly unknown[], R>(method: string, ask: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      const about = {
        kind: "forge",
        stageAttempt: recorder.stageAttempt,
        method,
        args: args.map((arg) => recorder.masked(arg)),
      } as const;
      try {
        const value = await ask(...args);
        recorder.note({ ...about, answer: { kind: "answered", value: recorder.masked(value ?? null) } });
        return value;
      } catch (error) {
        if (error instanceof HoldfastError) {
          const message = recorder.mask(error.message);
          recorder.note({ ...about, answer: { kind: "refused", code: error.code, message } });
        }
        throw error;
      }
    };
}

/** One try of an agent, as far as it is known at its end. The files that it left come with the checkpoint. */
export interface AgentTake {
  readonly record: Omit<RecordedAgent, "files" | "failed">;
  readonly before: FilesPlane | null;
}

export function requestOf(
  call: AgentCall,
  params: {
    readonly config: Pick<ExecutionConfig, "agent" | "model">;
    readonly iteration: number;
    readonly mask: (text: string) => string;
  },
): AskedAgent {
  const { mask, iteration } = params;
  // The workflow does not see which agent replaced the requested one.
  const { provider: agent, model } = chooseAgent(call.model, params.config);
  const { role, yolo, timeoutMs = null, collect = [] } = call;
  const works = call.sideWorktree !== undefined ? "sideWorktree" : (call.changesFiles ?? true) ? "files" : "reads";
  const env = Object.fromEntries(Object.entries(call.env ?? {}).map(([name, value]) => [name, mask(value)]));
  return {
    agent,
    model,
    iteration,
    role,
    prompt: mask(call.prompt),
    yolo,
    timeoutMs,
    env,
    collect: [...collect],
    works,
  };
}

/** Null: the run is not recorded. */
export async function recordAgentCall(
  runSession: RunSession,
  params: {
    readonly call: AgentCall;
    readonly agent: Agent;
    readonly model: string | null;
    readonly attempt: number;
    readonly opened: { readonly prompt: string; readonly session: string | null; readonly forkAt: string | null };
    readonly events: EventRecorder;
    readonly before: FilesPlane | null;
    readonly milliseconds: number;
  },
): Promise<AgentTake | null> {
  const { recorder } = runSession.adapters;
  if (recorder === undefined) return null;
  const { call, agent, model, opened, events } = params;
  const { seed } = runSession.state.config;
  const { session, forkAt } = opened;
  return {
    before: params.before,
    record: {
      kind: "agent",
      stageAttempt: runSession.attempt.number,
      step: call.name,
      attempt: params.attempt,
      asked: requestOf(call, {
        config: runSession.state.config,
        iteration: runSession.state.position.iteration,
        mask: recorder.mask,
      }),
      sent: { prompt: opened.prompt === call.prompt ? null : recorder.mask(opened.prompt), session, forkAt },
      ran: {
        agent: agent.name,
        model,
        version: await recorder.version(agent),
        argv: events.argv,
        environment: recorder.environment(),
        seed: seed === null ? null : { value: seed, how: agent.capabilities.seed === true ? "taken" : "not_taken" },
      },
      heard: events.recorded(),
      milliseconds: params.milliseconds,
    },
  };
}

/** Notes the call in the recorder, for the commit that follows. */
export function recordAgentEntry(
  runSession: RunSession,
  take: AgentTake | null,
  came: { readonly after: FilesPlane | null; readonly failed: RecordedAgent["failed"] },
): void {
  if (take === null) return;
  const files = { before: markOf(take.before), after: markOf(came.after) };
  runSession.adapters.recorder?.note({ ...take.record, files, failed: came.failed });
}

function markOf(files: FilesPlane | null): FileMark | null {
  if (files === null) return null;
  const { tree, snapshot, head, branch } = files;
  return { tree, snapshot, head, branch };
}

/** Wraps a request to the outside world. */
export type Wrap = <A extends readonly unknown[], R>(
  method: string,
  ask: (...args: A) => Promise<R>,
) => (...args: A) => Promise<R>;

/** Returns a forge whose methods all go through `wrap`. */
export function eachForgeQuestion(forge: Forge, marked: Forge["marked"], wrap: Wrap): Forge {
  const { name, location, lateMs } = forge;
  return {
    name,
    location,
    lateMs,
    marked,
    // A question before the run, so it is not part of its record.
    ...(forge.checkAccess === undefined ? {} : { checkAccess: async () => await forge.checkAccess?.() }),
    getIssue: wrap("getIssue", (number: number) => forge.getIssue(number)),
    issueComments: wrap("issueComments", (number: number) => forge.issueComments(number)),
    createIssue: wrap("createIssue", (...args: Parameters<Forge["createIssue"]>) => forge.createIssue(...args)),
    findIssue: wrap("findIssue", (key: string) => forge.findIssue(key)),
    setLabels: wrap("setLabels", (...args: Parameters<Forge["setLabels"]>) => forge.setLabels(...args)),
    findComment: wrap("findComment", (...args: Parameters<Forge["findComment"]>) => forge.findComment(...args)),
    comment: wrap("comment", (...args: Parameters<Forge["comment"]>) => forge.comment(...args)),
    deleteComment: wrap("deleteComment", (...args: Parameters<Forge["deleteComment"]>) => forge.deleteComment(...args)),
    defaultBranch: wrap("defaultBranch", () => forge.defaultBranch()),
    findPullRequest: wrap("findPullRequest", (head: string) => forge.findPullRequest(head)),
    getPullRequest: wrap("getPullRequest", (number: number) => forge.getPullRequest(number)),
    createPullRequest: wrap("createPullRequest", (...args: Parameters<Forge["createPullRequest"]>) =>
      forge.createPullRequest(...args),
    ),
    updatePullRequest: wrap("updatePullRequest", (...args: Parameters<Forge["updatePullRequest"]>) =>
      forge.updatePullRequest(...args),
    ),
    closePullRequest: wrap("closePullRequest", (number: number) => forge.closePullRequest(number)),
    mergePullRequest: wrap("mergePullRequest", (...args: Parameters<Forge["mergePullRequest"]>) =>
      forge.mergePullRequest(...args),
    ),
    checks: wrap("checks", (commit: string) => forge.checks(commit)),
    reviews: wrap("reviews", (number: number) => forge.reviews(number)),
  };
}

/** Returns a branch whose remote operations go through `wrap`. Local operations are unwrapped. */
export function eachRemoteQuestion(branch: Branch, wrap: Wrap): Branch {
  return {
    ...branch,
    remote: wrap("branch.remote", () => branch.remote()),
    pushRemote: wrap("branch.pushRemote", () => branch.pushRemote()),
    fetch: wrap("branch.fetch", () => branch.fetch()),
    remoteBranch: wrap("branch.remoteBranch", (name: string) => branch.remoteBranch(name)),
    lookUpRemote: wrap("branch.lookUpRemote", (name: string) => branch.lookUpRemote(name)),
    defaultBranch: wrap("branch.defaultBranch", () => branch.defaultBranch()),
    inspectPush: wrap("branch.inspectPush", (params: Parameters<Branch["inspectPush"]>[0]) =>
      branch.inspectPush(params),
    ),
    push: wrap("branch.push", (params: Parameters<Branch["push"]>[0]) => branch.push(params)),
  };
}

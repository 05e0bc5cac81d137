// Requests to crunch agents and questions to the user: each is recorded as a message before it is sent.

import { existsSync } from "node:fs";
import { readCrunchTriggers } from "./layout.ts";
import type { Trigger } from "@holdfast/core/checkpoint";
import type { AgentReport, SideWorktree, Fence } from "@holdfast/core/workflow";
import { OUTPUT_DIRECTORY } from "../worktree.ts";
import { type EscalatePayload, type Message, type MessagePriority, messageId } from "./messages.ts";
import { type CrunchContext, type CrunchDependencies, isoNow, requireSetup, recordEvent } from "./phase-steps.ts";
import type { Phase } from "./phases.ts";
import { REPLY_REFERENCE, REPLY_REFERENCE_TEXT } from "./reply.ts";
import type { GraphPhase } from "./settings.ts";
import type { Team } from "./team.ts";

interface AgentRequest {
  /** Names the steps that record this request. */
  readonly naming: StepNaming;
  readonly agent: string;
  /** Identifies the call for a scripted agent: the node's id, or the purpose of the call. */
  readonly role: string;
  readonly action: string;
  readonly node: string | null;
  readonly phase: Phase;
  readonly priority: Envelope["priority"];
  /** Builds the prompt. Every text from outside must go through the fence of the call. */
  readonly prompt: (fence: Fence) => string;
  readonly timeoutMs: number | null;
  /** 1 for the first attempt. */
  readonly attempt: number;
  readonly outputs: readonly string[];
  /** The side worktree in which the agent may change files; null: it may change none. */
  readonly sideWorktree: SideWorktree | null;
}

interface AgentResponse {
  readonly report: AgentReport;
  /** The request that the answer must reference. */
  readonly request: Message;
}

/**
 * Records the complete request before the agent is called. After a crash in between, the engine sends the identical
 * request again. A failed request is withdrawn; the next attempt sends a new one.
 */
export async function callAgent(
  work: CrunchDependencies,
  context: CrunchContext,
  asking: AgentRequest,
): Promise<AgentResponse> {
  const { naming, agent, phase, sideWorktree } = asking;
  const fence = context.fence(naming("agent"));
  const asked = fence.prompt(asking.prompt(fence));
  const request = await sendMessage(
    context,
    { name: naming("request"), from: COORDINATOR, to: agent, answers: null, phase, priority: asking.priority },
    {
      type: "REQUEST",
      payload: {
        action: asking.action,
        node: asking.node,
        prompt: asked,
        context: {},
        constraints: { timeoutMs: asking.timeoutMs, requiredOutputs: asking.outputs, forbiddenActions: [] },
      },
    },
  );
  const prompt = request.type === "REQUEST" ? request.payload.prompt : asked;
  const root = sideWorktree?.root ?? context.workspace?.root;
  // A replayed or already answered call needs no file, and its directory may be gone.
  if (root !== undefined && existsSync(root)) await placeReference(work, root);
  await recordEvent(context, naming("sent"), { kind: "message_delivered", id: request.id });
  const report = await context.agent({
    name: naming("agent"),
    role: asking.role,
    prompt,
    continuation: requireSetup(context).templates.continue,
    model: modelOf(work, context, agent),
    yolo: work.options.yolo,
    ...(asking.timeoutMs === null ? {} : { timeoutMs: asking.timeoutMs }),
    triedBefore: asking.attempt - 1,
    changesFiles: sideWorktree !== null,
    ...(sideWorktree === null ? {} : { sideWorktree }),
    env: { HOLDFAST_AGENT: agent, HOLDFAST_NODE: asking.node ?? asking.role, HOLDFAST_PHASE: phase },
  });
  if (report.outcome === "failed") {
    const why = `${report.cause ?? "it failed"}: ${report.message ?? "it said nothing"}`;
    await recordEvent(context, naming("withdrawn"), { kind: "message_withdrawn", id: request.id, why });
  }
  return { report, request };
}

/** Puts the form of an answer where the agent works. An agent or the repository may have put something else there. */
async function placeReference({ adapters }: CrunchDependencies, root: string): Promise<void> {
  const outputs = adapters.outputs(root);
  await outputs.hide(OUTPUT_DIRECTORY);
  if ((await outputs.read(REPLY_REFERENCE)) !== REPLY_REFERENCE_TEXT)
    await outputs.write(REPLY_REFERENCE, REPLY_REFERENCE_TEXT);
}

/** Sender of requests that no agent sends. */
export const COORDINATOR = "orchestrator";

/** Looks up the model for the agent, then for its role, then in its profile; null: the run's default model. */
function modelOf({ options }: CrunchDependencies, context: CrunchContext, agent: string): string | null {
  const profile = requireSetup(context).settings.agents[agent];
  return options.models[agent] ?? options.models[profile?.role ?? ""] ?? profile?.agent ?? null;
}

/** Asks a question that only the user can answer, with `holdfast approve`. Records question and answer as messages. */
export async function askUser(
  { context, phase }: Pick<PhaseContext, "context" | "phase">,
  params: {
    readonly naming: StepNaming;
    readonly from: string;
    readonly type: EscalatePayload["escalationType"];
    readonly question: string;
    /** If empty, any answer is accepted. */
    readonly options: readonly string[];
  },
): Promise<string> {
  const { naming, from, question, options } = params;
  const envelope = { phase, priority: "HIGH" } as const;
  const asked = await sendMessage(
    context,
    { ...envelope, name: naming("escalate"), from, to: USER, answers: null },
    {
      type: "ESCALATE",
      payload: {
        escalationType: params.type,
        severity: "HIGH",
        reason: question,
        decisionNeeded: question,
        options: options.map((option) => ({ option, pros: "", cons: "" })),
        recommendation: null,
        veto: null,
      },
    },
  );
  await recordEvent(context, naming("put"), { kind: "message_delivered", id: asked.id });
  const answer = await context.decide({ name: naming("decision"), question, options });
  await sendMessage(
    context,
    { ...envelope, name: naming("decided"), from: USER, to: from, answers: asked.id },
    {
      type: "RESPONSE",
      payload: {
        status: "SUCCESS",
        result: { summary: answer, outputs: [], filesModified: [], filesCreated: [] },
        findings: [],
        metrics: { durationMs: 0, tokens: 0 },
        handoff: null,
      },
    },
  );
  return answer;
}

const USER = "user";

interface Envelope {
  readonly from: string;
  readonly to: string;
  /** The id of the message that this one answers. */
  readonly answers: string | null;
  readonly phase: Phase;
  readonly priority: MessagePriority;
  /** Name of the step that records the message; it identifies the message within the stage attempt. */
  readonly name: string;
}

type Body = Message extends infer M ? (M extends Message ? Pick<M, "type" | "payload"> : never) : never;

/**
 * Records a message once. If a message was already recorded under this name, returns that one unchanged, whatever
 * `body` says now.
 */
export async function sendMessage(context: CrunchContext, envelope: Envelope, body: Body): Promise<Message> {
  const { from, to, name, phase } = envelope;
  const { issue } = requireSetup(context);
  const at = isoNow(context);
  const attempt = context.state.phases.filter((one) => one.phase === phase).length;
  const message: Message = {
    id: messageId({ at, from, to, key: `${context.run.id}/${context.position.stageAttempt.number}/${name}` }),
    from,
    to,
    correlation: envelope.answers,
    timestamp: at,
    priority: envelope.priority,
    metadata: { issue: issue.number, phase, attempt, checkpoint: null },
    ...body,
  };
  const recorded = await recordEvent(context, name, { kind: "message_sent", message });
  return recorded.message;
}

/** Dependencies of everything that runs in a phase's graph. */
export interface PhaseContext {
  readonly work: CrunchDependencies;
  readonly context: CrunchContext;
  readonly phase: GraphPhase;
  readonly team: Team;
  /** Side worktrees that this process has open, by name. */
  readonly sideWorktrees: Map<string, SideWorktree>;
}

/** Names the steps of a node attempt or a batch. The engine uses the names to find what belongs to the graph. */
export type StepNaming = (part: string) => string;

const NAME_CHARACTERS = 200;

/** Takes a checkpoint in addition to the engine's own, unless the user has disabled this trigger. */
export async function takeCheckpoint({ work, context }: PhaseContext, trigger: Trigger, name: string): Promise<void> {
  const triggers = readCrunchTriggers(await work.adapters.projectRoot());
  if (!triggers[trigger].taken) return;
  await context.checkpoint({ trigger, name: name.replaceAll(/\s+/g, " ").slice(0, NAME_CHARACTERS).toWellFormed() });
}

import type { Trigger } from "@holdfast/core/checkpoint";
import type { AgentReport, Aside, Fence } from "@holdfast/core/workflow";
import { type EscalatePayload, type Message, type MessagePriority, messageId } from "./messages.ts";
import { type CrunchContext, type CrunchDependencies, isoNow, requireSetup, tell } from "./phase-steps.ts";
import type { Phase } from "./phases.ts";
import type { GraphPhase } from "./settings.ts";
import type { Team } from "./team.ts";

interface AgentRequest {
  /** Names of what is written down about it. */
  readonly naming: StepNaming;
  readonly agent: string;
  /** As a script tells calls apart: the node's id, or what the call is for. */
  readonly role: string;
  readonly action: string;
  readonly node: string | null;
  readonly phase: Phase;
  readonly priority: Envelope["priority"];
  /** The prompt; every text from outside goes through the fence of the call. */
  readonly prompt: (fence: Fence) => string;
  readonly timeoutMs: number | null;
  /** 1 for the first try. */
  readonly attempt: number;
  readonly outputs: readonly string[];
  /** Where it may change files; null: nowhere. */
  readonly aside: Aside | null;
}

interface AgentResponse {
  readonly report: AgentReport;
  /** The request, which the answer must name. */
  readonly request: Message;
}

/**
 * An agent's work as a request that is written down, whole, before anybody is asked. Killed in between, the same request is sent again, word
 * for word. One that fails is withdrawn: the next try is a request of its own.
 */
export async function callAgent(
  work: CrunchDependencies,
  context: CrunchContext,
  asking: AgentRequest,
): Promise<AgentResponse> {
  const { naming, agent, phase, aside } = asking;
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
  await tell(context, naming("sent"), { kind: "message_delivered", id: request.id });
  const report = await context.agent({
    name: naming("agent"),
    role: asking.role,
    prompt,
    model: modelOf(work, context, agent),
    yolo: work.options.yolo,
    ...(asking.timeoutMs === null ? {} : { timeoutMs: asking.timeoutMs }),
    triedBefore: asking.attempt - 1,
    changesFiles: aside !== null,
    ...(aside === null ? {} : { aside }),
    env: { HOLDFAST_AGENT: agent, HOLDFAST_NODE: asking.node ?? asking.role, HOLDFAST_PHASE: phase },
  });
  if (report.outcome === "failed") {
    const why = `${report.cause ?? "it failed"}: ${report.message ?? "it said nothing"}`;
    await tell(context, naming("withdrawn"), { kind: "message_withdrawn", id: request.id, why });
  }
  return { report, request };
}

/** Who asks when no agent does. */
export const COORDINATOR = "orchestrator";

/** For the agent itself, then for its role, then as its file says; null: the run's own. */
function modelOf({ options }: CrunchDependencies, context: CrunchContext, agent: string): string | null {
  const profile = requireSetup(context).settings.agents[agent];
  return options.models[agent] ?? options.models[profile?.role ?? ""] ?? profile?.agent ?? null;
}

/** A question that only a person can answer: written down as a message, asked with `holdfast approve`, and its answer written down too. */
export async function askUser(
  { context, phase }: Pick<PhaseContext, "context" | "phase">,
  params: {
    readonly naming: StepNaming;
    readonly from: string;
    readonly type: EscalatePayload["escalationType"];
    readonly question: string;
    /** None: any answer will do. */
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
  await tell(context, naming("put"), { kind: "message_delivered", id: asked.id });
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
  /** The message that it answers. */
  readonly answers: string | null;
  readonly phase: Phase;
  readonly priority: MessagePriority;
  /** The step that writes it down; it says which message of the visit this is. */
  readonly name: string;
}

type Body = Message extends infer M ? (M extends Message ? Pick<M, "type" | "payload"> : never) : never;

/** Writes a message down, once; the one that was written under this name before, whatever it would say now, is returned as it was. */
export async function sendMessage(context: CrunchContext, envelope: Envelope, body: Body): Promise<Message> {
  const { from, to, name, phase } = envelope;
  const { issue } = requireSetup(context);
  const at = isoNow(context);
  const attempt = context.state.phases.filter((stay) => stay.phase === phase).length;
  const message: Message = {
    id: messageId({ at, from, to, key: `${context.run.id}/${context.position.visit.number}/${name}` }),
    from,
    to,
    correlation: envelope.answers,
    timestamp: at,
    priority: envelope.priority,
    metadata: { issue: issue.number, phase, attempt, checkpoint: null },
    ...body,
  };
  const recorded = await tell(context, name, { kind: "message_sent", message });
  return recorded.message;
}

/** What everything in a phase's graph works with. */
export interface PhaseContext {
  readonly work: CrunchDependencies;
  readonly context: CrunchContext;
  readonly phase: GraphPhase;
  readonly team: Team;
  /** Open ones of this process, by name. */
  readonly asides: Map<string, Aside>;
}

/** Names of what a node's try or a batch writes down. By them the engine knows what belongs to the graph. */
export type StepNaming = (part: string) => string;

const NAME_CHARACTERS = 200;

/** On top of the engine's own safety points, where the user has not switched it off. */
export async function takeCheckpoint({ work, context }: PhaseContext, trigger: Trigger, name: string): Promise<void> {
  const triggers = await work.parts.crunchTriggers();
  if (!triggers[trigger].taken) return;
  await context.checkpoint({ trigger, name: name.replaceAll(/\s+/g, " ").slice(0, NAME_CHARACTERS).toWellFormed() });
}

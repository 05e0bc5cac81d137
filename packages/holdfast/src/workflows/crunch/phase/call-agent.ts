import type { Fence } from "../../../core/agent/fence.ts";
import type { Message } from "../../../core/crunch/message.ts";
import type { Phase } from "../../../core/crunch/phase.ts";
import type { Aside, AgentReport } from "../../../engine/stage-context.ts";
import { requireSetup, tell } from "../work.ts";
import type { CrunchContext, CrunchWork } from "../work.ts";
import type { Naming } from "./phase-work.ts";
import { sendMessage } from "./send-message.ts";
import type { Envelope } from "./send-message.ts";

export interface Asking {
  /** Names of what is written down about it. */
  readonly naming: Naming;
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

export interface Asked {
  readonly report: AgentReport;
  /** The request, which the answer must name. */
  readonly request: Message;
}

/**
 * An agent's work as a request that is written down, whole, before anybody is asked. Killed in between, the same request is sent again, word
 * for word. One that fails is withdrawn: the next try is a request of its own.
 */
export async function callAgent(work: CrunchWork, context: CrunchContext, asking: Asking): Promise<Asked> {
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
function modelOf({ options }: CrunchWork, context: CrunchContext, agent: string): string | null {
  const profile = requireSetup(context).settings.agents[agent];
  return options.models[agent] ?? options.models[profile?.role ?? ""] ?? profile?.agent ?? null;
}

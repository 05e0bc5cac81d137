import type { PendingCapture } from "../../../core/crunch/knowledge.ts";
import type { Message } from "../../../core/crunch/message.ts";
import type { AgentReply } from "../../../core/crunch/reply.ts";
import type { GraphNode } from "../../../core/graph.ts";
import type { NodeScope } from "../../../engine/graph/graph-work.ts";
import type { AgentReport } from "../../../engine/stage-context.ts";
import { requireSetup, tell } from "../work.ts";
import { COORDINATOR } from "./call-agent.ts";
import { sendMessage } from "./send-message.ts";
import { takeCheckpoint } from "./phase-work.ts";
import type { PhaseWork } from "./phase-work.ts";

export interface Heard {
  readonly node: GraphNode;
  readonly scope: NodeScope;
  /** The message that was answered. */
  readonly request: Message;
  readonly reply: AgentReply;
  readonly report: AgentReport;
}

/** Writes an answer down and does what it asks for: a word to everybody, something to be kept. */
export async function hearReply(given: PhaseWork, heard: Heard): Promise<void> {
  await answerRequest(given, { ...heard, name: heard.scope.name("answer") });
  await broadcast(given, heard);
  await planCaptures(given, heard);
}

/** A request has one answer: who hands the work over answers by that. */
export async function answerRequest(
  { context, phase }: PhaseWork,
  { request, reply, report, name }: Pick<Heard, "request" | "reply" | "report"> & { readonly name: string },
): Promise<void> {
  const { handoff } = reply;
  const envelope = {
    name,
    from: request.to,
    to: COORDINATOR,
    answers: request.id,
    phase,
    priority: request.priority,
  };
  if (handoff !== null) {
    const contextTransfer = {
      workCompleted: [reply.summary],
      remainingWork: reply.followUps.map(({ task }) => task),
      relevantFindings: reply.findings.map(({ title }) => title),
    };
    const payload = {
      reason: handoff.reason,
      recommendedAgent: handoff.to,
      contextTransfer,
      urgency: "NORMAL",
    } as const;
    await sendMessage(context, envelope, { type: "HANDOFF", payload });
    return;
  }
  const { inputTokens, outputTokens } = report.usage;
  await sendMessage(context, envelope, {
    type: "RESPONSE",
    payload: {
      status: reply.status,
      result: {
        summary: reply.summary,
        outputs: reply.outputs,
        filesModified: reply.filesModified,
        filesCreated: reply.filesCreated,
      },
      findings: reply.findings,
      metrics: { durationMs: report.milliseconds, tokens: (inputTokens ?? 0) + (outputTokens ?? 0) },
      handoff: null,
    },
  });
}

async function broadcast(given: PhaseWork, { node, scope, reply }: Heard): Promise<void> {
  const { context, phase } = given;
  for (const [index, { event, message }] of reply.broadcasts.entries()) {
    await sendMessage(
      context,
      { name: scope.name(`broadcast-${index}`), from: node.agent, to: "*", answers: null, phase, priority: "NORMAL" },
      { type: "BROADCAST", payload: { event, message, data: {}, affects: [] } },
    );
    if (event === "CHECKPOINT") await takeCheckpoint(given, "manual", `${node.agent}: ${message}`);
  }
}

async function planCaptures({ context, phase }: PhaseWork, { scope, reply }: Heard): Promise<void> {
  const { issue } = requireSetup(context);
  for (const [index, { type, content, tags }] of reply.knowledge.entries()) {
    const capture: PendingCapture = {
      name: `${phase}/${context.position.visit.number}/${scope.name(`knowledge-${index}`)}`,
      type,
      content,
      tags,
      source: { type: "issue", ref: `#${issue.number}`, phase },
      issue: issue.number,
    };
    await tell(context, scope.name(`capture-${index}`), { kind: "capture_planned", capture });
  }
}

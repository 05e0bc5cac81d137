import type { PendingCapture } from "../../../core/crunch/knowledge.ts";
import type { Message } from "../../../core/crunch/message.ts";
import type { AgentReply } from "../../../core/crunch/reply.ts";
import type { GraphNode } from "../../../core/graph.ts";
import type { AgentReport } from "../../../engine/stage-context.ts";
import { requireSetup, tell } from "../work.ts";
import { addNodes } from "./add-nodes.ts";
import { COORDINATOR } from "./call-agent.ts";
import { sendMessage } from "./send-message.ts";
import type { NodeWork } from "./work-node.ts";

export interface Heard {
  readonly node: GraphNode;
  readonly key: string;
  /** The message that was answered. */
  readonly request: Message;
  readonly reply: AgentReply;
  readonly report: AgentReport;
}

/** Writes an answer down and does what it asks for: work for others, a word to everybody, something to be kept. */
export async function hearReply(given: NodeWork, heard: Heard): Promise<void> {
  await answer(given, heard);
  await broadcast(given, heard);
  await planCaptures(given, heard);
  await addNodes(given, heard);
}

/** A request has one answer: who hands the work over answers by that. */
async function answer({ context, phase }: NodeWork, { node, key, request, reply, report }: Heard): Promise<void> {
  const { handoff } = reply;
  const envelope = {
    key: `${key}:answer`,
    from: node.agent,
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

async function broadcast({ context, phase }: NodeWork, { node, key, reply }: Heard): Promise<void> {
  for (const [index, { event, message }] of reply.broadcasts.entries()) {
    await sendMessage(
      context,
      { key: `${key}:broadcast-${index}`, from: node.agent, to: "*", answers: null, phase, priority: "NORMAL" },
      { type: "BROADCAST", payload: { event, message, data: {}, affects: [] } },
    );
    if (event === "CHECKPOINT")
      await context.checkpoint({ trigger: "manual", name: `${node.agent}: ${message}`.slice(0, 200) });
  }
}

async function planCaptures({ context, phase }: NodeWork, { key, reply }: Heard): Promise<void> {
  const { issue } = requireSetup(context);
  for (const [index, { type, content, tags }] of reply.knowledge.entries()) {
    const capture: PendingCapture = {
      name: `${phase}/${context.position.visit.number}/${key}/${index}`,
      type,
      content,
      tags,
      source: { type: "issue", ref: `#${issue.number}`, phase },
      issue: issue.number,
    };
    await tell(context, `${key}:capture-${index}`, { kind: "capture_planned", capture });
  }
}

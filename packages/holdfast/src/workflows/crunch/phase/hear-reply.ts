import type { PendingCapture } from "../../../core/crunch/knowledge.ts";
import type { Message } from "../../../core/crunch/message.ts";
import type { AgentReply } from "../../../core/crunch/reply.ts";
import type { GraphNode } from "../../../core/graph/graph.ts";
import type { NodeScope } from "../../../engine/graph/graph-work.ts";
import type { AgentReport } from "../../../engine/stage-context.ts";
import { requireSetup, tell } from "../work.ts";
import { answerRequest } from "./answer-request.ts";
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
  const { node, scope, request, reply, report } = heard;
  await answerRequest(given, { name: scope.name("answer"), agent: node.agent, request, reply, report });
  await broadcast(given, heard);
  await planCaptures(given, heard);
}

async function broadcast(given: PhaseWork, { node, scope, reply }: Heard): Promise<void> {
  const { context, phase } = given;
  for (const [index, { event, message }] of reply.broadcasts.entries()) {
    const { id } = await sendMessage(
      context,
      { name: scope.name(`broadcast-${index}`), from: node.agent, to: "*", answers: null, phase, priority: "NORMAL" },
      { type: "BROADCAST", payload: { event, message, data: {}, affects: [] } },
    );
    if (event === "CHECKPOINT") await takeCheckpoint(given, "manual", `${node.agent}: ${message}`);
    // Whoever begins to work after this reads it in its prompt.
    await tell(context, scope.name(`broadcast-${index}-heard`), { kind: "message_delivered", id });
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

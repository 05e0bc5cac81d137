import type { Message } from "../../../core/crunch/message.ts";
import type { AgentReply } from "../../../core/crunch/reply.ts";
import type { AgentReport } from "../../../engine/stage-context.ts";
import { COORDINATOR } from "./call-agent.ts";
import type { PhaseWork } from "./phase-work.ts";
import { sendMessage } from "./send-message.ts";

/** A request has one answer: who hands the work over answers by that. */
export async function answerRequest(
  { context, phase }: PhaseWork,
  params: {
    /** The step that writes it down. */
    readonly name: string;
    readonly agent: string;
    readonly request: Message;
    readonly reply: AgentReply;
    readonly report: AgentReport;
  },
): Promise<void> {
  const { name, agent, request, reply, report } = params;
  const { handoff } = reply;
  const envelope = {
    name,
    from: agent,
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

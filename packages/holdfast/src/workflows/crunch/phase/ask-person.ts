import type { EscalatePayload } from "../../../core/crunch/message.ts";
import { tell } from "../work.ts";
import { sendMessage } from "./send-message.ts";
import type { Naming, PhaseWork } from "./phase-work.ts";

/** A question that only a person can answer: written down as a message, asked with `holdfast approve`, and its answer written down too. */
export async function askPerson(
  { context, phase }: Pick<PhaseWork, "context" | "phase">,
  params: {
    readonly naming: Naming;
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

import type { Fence } from "../../../core/agent/fence.ts";
import type { Conflict, ConflictPosition } from "../../../core/crunch/conflict.ts";
import { positionsAfter } from "../../../core/crunch/debate.ts";
import { parsePosition, POSITION_FORM } from "../../../core/crunch/reply.ts";
import { requireSetup } from "../work.ts";
import { callAgent, COORDINATOR } from "./call-agent.ts";
import { sendMessage } from "./send-message.ts";
import type { Naming, PhaseWork } from "./phase-work.ts";

/** What an agent says in one round; null when it says nothing that can be read, and so stands where it stood. */
export async function takePosition(
  given: PhaseWork,
  params: { readonly conflict: Conflict; readonly agent: string; readonly round: number; readonly naming: Naming },
): Promise<ConflictPosition | null> {
  const { work, context, phase } = given;
  const { conflict, agent, round } = params;
  const naming: Naming = (part) => params.naming(`${round}-${agent}-${part}`);
  const profile = requireSetup(context).settings.agents[agent];
  const { report, request } = await callAgent(work, context, {
    naming,
    agent,
    role: `debate-${agent}`,
    action: "resolve_conflict",
    node: null,
    phase,
    priority: "HIGH",
    prompt: (fence) => debatePrompt(params, profile?.about ?? "", fence),
    timeoutMs: profile?.timeoutMs ?? null,
    attempt: 1,
    outputs: [],
    aside: null,
  });
  if (report.outcome === "failed") return null;
  const position = parsePosition(report.text, agent);
  const stands = position ?? positionsAfter(conflict, round - 1).find((one) => one.agent === agent);
  if (stands === undefined) return null;
  const { agent: _agent, ...vote } = stands;
  await sendMessage(
    context,
    { name: naming("vote"), from: agent, to: COORDINATOR, answers: request.id, phase, priority: "HIGH" },
    { type: "VOTE", payload: { conflict: conflict.id, round, ...vote } },
  );
  return position;
}

function debatePrompt(
  { conflict, agent, round }: { readonly conflict: Conflict; readonly agent: string; readonly round: number },
  about: string,
  fence: Fence,
): string {
  const said = positionsAfter(conflict, round - 1).map(
    (one) => `- ${one.agent}: ${one.choice} (confidence ${one.confidence}). ${one.rationale}`,
  );
  return [
    `You are ${agent}, ${about} The team disagrees about this: ${fence.data("agents", conflict.topic)}`,
    `Round ${round} of the debate. What each stands for now:\n${fence.data("agents", said.join("\n"))}`,
    "Say what you stand for after having heard the others. Move if they convinced you. Change no file.",
    `End with one JSON object in a fenced block:\n\`\`\`json\n${POSITION_FORM}\n\`\`\``,
  ].join("\n\n");
}

import type { AgentOutcome } from "../../ports/agent.ts";
import type { AgentCallKey, AnswerFile } from "../work-parts.ts";
import type { Stay } from "../stage/stay.ts";
import type { RunSession } from "../conduct/run-session.ts";

/**
 * What a file keeps of one try of an agent call for as long as the journal does not: the tokens that the agent has reported so far and, once it has
 * ended, its result. The next process counts the tokens of a try that died, and adopts a result instead of paying for it again.
 */
export interface KeptAnswer {
  readonly agent: string;
  readonly model: string | null;
  readonly attempt: number;
  /** Reported while it worked. */
  readonly tokens: number;
  /** null: it had not ended. */
  readonly ended: { readonly outcome: AgentOutcome; readonly milliseconds: number } | null;
  /** A resume has replaced the files that the call worked on: no result of it may be adopted, not even one in the agent's own record. */
  readonly filesGone?: true;
}

export function keepAnswer(file: AnswerFile, kept: KeptAnswer): void {
  file.write(JSON.stringify(kept));
}

/** null: nothing was kept, or it cannot be read. */
export function readAnswer(file: AnswerFile): KeptAnswer | null {
  const text = file.read();
  if (text === null) return null;
  try {
    // Written whole, by keepAnswer of this version.
    return JSON.parse(text) as KeptAnswer;
  } catch {
    return null;
  }
}

/** The files of the call are replaced, so its result must not be adopted. Its tokens stay known. */
export function forgetResult(file: AnswerFile): void {
  const kept = readAnswer(file) ?? { agent: "", model: null, attempt: 0, tokens: 0, ended: null };
  const { inputTokens = 0, outputTokens = 0 } = kept.ended?.outcome.usage ?? {};
  const tokens = Math.max(kept.tokens, (inputTokens ?? 0) + (outputTokens ?? 0));
  keepAnswer(file, { ...kept, tokens, ended: null, filesGone: true });
}

export function answerFile(writer: RunSession, step: string): AnswerFile {
  const key: AgentCallKey = { run: writer.run.id, visit: writer.visit, step };
  return writer.parts.agentAnswer(key);
}

/** Of this try of this agent; null: of another, or none. */
export function ownAnswer(
  { writer }: Stay,
  step: string,
  own: Pick<KeptAnswer, "agent" | "model" | "attempt">,
): KeptAnswer | null {
  const kept = readAnswer(answerFile(writer, step));
  const isOwn = kept?.agent === own.agent && kept.model === own.model && kept.attempt === own.attempt;
  return isOwn ? kept : null;
}

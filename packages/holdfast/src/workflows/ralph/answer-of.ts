import type { Answer } from "../../core/ralph/iteration.ts";
import type { Unit } from "../../core/ralph/units.ts";
import type { AgentReport } from "../../engine/stage-context.ts";
import { keepEnd } from "../keep-end.ts";
import { readLearnings } from "./stand-in.ts";
import type { LoopState } from "./state.ts";

const SAID_CHARACTERS = 4000;

/** What is kept of a turn: bounded, whatever the agent said. */
export function answerOf(params: {
  readonly number: number;
  readonly state: Pick<LoopState, "unit">;
  readonly unit: Unit;
  readonly report: AgentReport;
  readonly changed: { readonly files: number; readonly tree: string };
}): Answer {
  const { report, changed } = params;
  const { inputTokens, outputTokens, microUsd } = report.usage;
  return {
    number: params.number,
    unit: params.state.unit,
    unitName: params.unit.name,
    outcome: report.outcome,
    cause: report.cause,
    said: keepEnd(report.text, SAID_CHARACTERS),
    learnings: readLearnings(report.text),
    spent: {
      tokens: inputTokens === null && outputTokens === null ? null : (inputTokens ?? 0) + (outputTokens ?? 0),
      microUsd,
    },
    milliseconds: report.milliseconds,
    filesChanged: changed.files,
    tree: changed.tree,
  };
}

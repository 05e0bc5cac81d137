import { maskSecrets } from "../mask.ts";
import { clip } from "./clip.ts";
import type { Answer, Spent } from "./iteration.ts";
import { readLearnings } from "./read-learnings.ts";
import type { Unit } from "./units.ts";

const MOST_SAID = 2_000;

/** What is kept of an agent's turn. `report` is what the engine tells of the call; the rest is what it does not know. */
export function readAnswer(params: {
  readonly number: number;
  readonly unit: number;
  readonly units: readonly Unit[];
  readonly report: {
    readonly outcome: Answer["outcome"];
    readonly cause: string | null;
    readonly text: string;
    readonly milliseconds: number;
    readonly usage: {
      readonly inputTokens: number | null;
      readonly outputTokens: number | null;
      readonly microUsd: number | null;
    };
  };
  readonly filesChanged: number | null;
  readonly tree: string | null;
}): Answer {
  const { number, unit, units, report, filesChanged, tree } = params;
  const { learnings, rest } = readLearnings(report.text);
  return {
    number,
    unit,
    unitName: units[unit]?.name ?? "",
    outcome: report.outcome,
    cause: report.cause,
    said: clip(maskSecrets(rest), MOST_SAID),
    learnings: learnings.map((one) => maskSecrets(one)),
    spent: spentOf(report.usage),
    milliseconds: Math.max(0, Math.round(report.milliseconds)),
    filesChanged,
    tree,
  };
}

function spentOf(usage: Parameters<typeof readAnswer>[0]["report"]["usage"]): Spent {
  const { inputTokens, outputTokens, microUsd } = usage;
  const silent = inputTokens === null && outputTokens === null;
  return { tokens: silent ? null : (inputTokens ?? 0) + (outputTokens ?? 0), microUsd };
}

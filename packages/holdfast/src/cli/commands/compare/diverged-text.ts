import type { ComparedPair } from "../../../app.ts";
import type { HistoryStep } from "../../../core/compare/read-history.ts";
import { countText } from "../../output/count-text.ts";

/** Where two runs parted, in a sentence without its end. */
export function divergedText({ a, b, diverged }: Pick<ComparedPair, "a" | "b" | "diverged">): string {
  const { common, beginning, first } = diverged;
  if (beginning === "none") return "they have no common beginning, so they differ from the start";
  const from = common === null ? "no common checkpoint" : `both come from ${common.run}@${common.sequence}`;
  if (first === null) return `${from}; they did the same`;
  const after = first.shared === 0 ? "from the first step on" : `after ${countText(first.shared, "step")} in common`;
  const did = (id: string, step: HistoryStep | null): string =>
    `${id} ${step === null ? "did nothing more" : `did ${step.name}`}`;
  switch (first.kind) {
    case "result":
      return `${from}; ${after} ${first.a?.name ?? ""} gave different results`;
    case "step":
    case "length":
      return `${from}; ${after} ${did(a, first.a)} and ${did(b, first.b)}`;
  }
}

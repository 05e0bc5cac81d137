import type { JournalEntry } from "../../../core/journal/journal.ts";
import type { Death } from "./worker-process.ts";

/** One stay in a stage, as the journal has it, with the deaths that fell into it. */
export interface TimelineRow {
  readonly visit: number;
  readonly stage: string;
  readonly iteration: number;
  readonly event: string;
  readonly score: number | null;
  readonly deaths: readonly string[];
}

export function timelineOf(entries: readonly JournalEntry[], deaths: readonly Death[]): readonly TimelineRow[] {
  const rows = new Map<number, TimelineRow>();
  for (const { kind, body } of entries) {
    const { visit, stage, iteration, event, score } = body;
    if (typeof visit !== "number" || typeof stage !== "string") continue;
    if (kind === "stage.entered") {
      const died = deaths.filter((death) => death.visit === visit).map(({ place }) => place);
      const round = typeof iteration === "number" ? iteration : 0;
      rows.set(visit, { visit, stage, iteration: round, event: "", score: null, deaths: died });
    }
    const row = rows.get(visit);
    if (kind === "stage.ended" && row !== undefined && typeof event === "string")
      rows.set(visit, { ...row, event, score: typeof score === "number" ? score : null });
  }
  return [...rows.values()];
}

import type { GcPlan, GcReport } from "../../../app.ts";
import type { RetentionDecision } from "../../../core/retention/retention.ts";
import { byteText } from "../../output/byte-text.ts";
import { countText } from "../../output/count-text.ts";
import type { Page } from "../../output/page.ts";
import { rangesText } from "../../output/ranges-text.ts";
import { usageText } from "../doctor/view.ts";
import { renderTable } from "../../output/table.ts";
import type { Cell } from "../../output/table.ts";

export function planText(plan: GcPlan, page: Page): string {
  const columns = [
    { title: "RUN", shrinkTo: 16, last: true, cut: "middle" },
    { title: "CHECKPOINTS", shrinkTo: 12 },
    { title: "DO" },
    { title: "FREES", align: "right", optional: true },
    { title: "WHY", shrinkTo: 24, wrap: true },
  ] as const;
  const rows = plan.plans.flatMap(({ run, decisions }) =>
    groupDecisions(decisions).map((group): readonly Cell[] => [
      { text: run },
      { text: rangesText(group.sequences) },
      { text: group.action, style: group.action === "drop" ? "red" : "green" },
      { text: group.action === "drop" ? byteText(group.bytes) : "" },
      { text: group.why },
    ]),
  );
  const table = rows.length === 0 ? "" : `${renderTable({ columns, rows }, page)}\n`;
  const usage = plan.usage.length === 0 ? "" : `${usageText(plan.usage, page)}\n`;
  return table + usage + totalText(plan);
}

export function gcReportText(report: GcReport): string {
  const { sweep, dropped } = report;
  const own = new Set(dropped.map(({ run, sequence }) => `refs/holdfast/${run}/${sequence}`));
  const leftOver = report.unpinned.filter((ref) => !own.has(ref)).length;
  const done =
    dropped.length === 0
      ? "Nothing had to be dropped"
      : `Dropped ${countText(dropped.length, "checkpoint")} (${dropped.length === 1 ? "it" : "each"} left a tombstone)`;
  const freed =
    sweep.freedBytes === 0 ? "nothing to free in the store yet" : `freed ${byteText(sweep.freedBytes)} in the store`;
  return `${done}; ${freed}${detailText({ refs: leftOver, asides: report.asides.length, sweep })}.\n${filesText(dropped.length)}`;
}

/** Said aloud whenever the daily clean-up removed something: nothing is forgotten silently. */
export function gcSummary(report: GcReport, page: Page): string {
  const dropped = countText(report.dropped.length, "checkpoint");
  return `Daily clean-up: dropped ${dropped} by retention, freed ${byteText(report.sweep.freedBytes)}.\n  why: ${page.program} log RUN    rules: ${page.program} config`;
}

/** For somebody who pressed Ctrl+C meanwhile. */
export function gcOutcome(report: GcReport): string | null {
  const { length } = report.dropped;
  return length === 0 ? null : `${countText(length, "checkpoint")} ${length === 1 ? "was" : "were"} dropped`;
}

export function dropsOf(plan: GcPlan): readonly Extract<RetentionDecision, { readonly action: "drop" }>[] {
  return plan.plans.flatMap(({ decisions }) => decisions.filter((decision) => decision.action === "drop"));
}

function totalText(plan: GcPlan): string {
  const drops = dropsOf(plan);
  const kept = plan.plans.reduce((sum, { decisions }) => sum + decisions.length, 0) - drops.length;
  const freed = drops.reduce((sum, { bytes }) => sum + bytes, 0) + plan.sweep.freedBytes;
  const verdict = drops.length === 0 ? "Nothing to drop" : `Would drop ${countText(drops.length, "checkpoint")}`;
  const frees = freed === 0 ? "" : `, free up to ${byteText(freed)} in the store`;
  const detail = detailText({ refs: plan.danglingRefs.length, asides: plan.asides.length, sweep: plan.sweep });
  return `${verdict}, keep ${kept}${frees}${detail}.\n${filesText(drops.length)}`;
}

function filesText(dropped: number): string {
  if (dropped === 0) return "";
  return `${dropped === 1 ? "Its" : "Their"} files are git objects: they go when git itself collects (git gc).\n`;
}

function detailText(left: { readonly refs: number; readonly asides: number; readonly sweep: GcPlan["sweep"] }): string {
  const { refs, asides, sweep } = left;
  const parts = [
    ...(refs > 0 ? [`${countText(refs, "ref")} left over from an interrupted save`] : []),
    ...(asides > 0 ? [`${countText(asides, "worktree")} left over from a run's asides`] : []),
    ...(sweep.temporaryFiles > 0 ? [countText(sweep.temporaryFiles, "temporary file")] : []),
    ...(sweep.recompressed > 0 ? [`${countText(sweep.recompressed, "chunk")} compressed`] : []),
  ];
  return parts.length === 0 ? "" : `; also ${parts.join(", ")}`;
}

interface Group {
  readonly action: RetentionDecision["action"];
  readonly why: string;
  readonly sequences: readonly number[];
  readonly bytes: number;
}

/** One line for each decision and reason: a hundred automatic checkpoints that go for one reason are one line. */
export function groupDecisions(decisions: readonly RetentionDecision[]): readonly Group[] {
  const groups = new Map<string, Group>();
  for (const decision of decisions) {
    const key = `${decision.action} ${decision.why}`;
    const known = groups.get(key) ?? { action: decision.action, why: decision.why, sequences: [], bytes: 0 };
    const bytes = known.bytes + (decision.action === "drop" ? decision.bytes : 0);
    groups.set(key, { ...known, sequences: [...known.sequences, decision.sequence], bytes });
  }
  return [...groups.values()].toSorted((a, b) => (a.sequences[0] ?? 0) - (b.sequences[0] ?? 0));
}

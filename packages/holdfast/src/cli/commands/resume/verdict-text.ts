import type { ResumePlan } from "../../../core/resume.ts";
import { escapeText } from "../../output/escape-text.ts";
import type { Page } from "../../output/page.ts";

/** What the pre-flight comes to, for --dry-run. */
export function verdictText(run: string, plan: ResumePlan, page: Page): string {
  const go = `${page.program} resume ${run}`;
  switch (plan.kind) {
    case "resume":
      return plan.judgements.length === 0
        ? `Nothing has changed meanwhile. Go on with: ${go}\n`
        : `Nothing stands in the way. Go on with: ${go}\n`;
    case "warn":
      return `It can go on as told above: ${go}\n`;
    case "ask":
      return `Needs a decision: ${escapeText(plan.why)}.\n${escapeText(plan.hint)}\n`;
    case "refuse":
      return `Cannot go on: ${escapeText(plan.why)}.\n${escapeText(plan.hint)}\n`;
    case "done":
      return `${escapeText(plan.why)}. There is nothing to do.\n`;
    case "nothing":
      return `${escapeText(plan.why)}. ${escapeText(plan.hint)}\n`;
  }
}

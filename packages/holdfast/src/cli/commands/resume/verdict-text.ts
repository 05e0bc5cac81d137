import type { ResumePlan } from "../../../core/resume/resume.ts";
import { escapeWords } from "../../output/escape-text.ts";
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
      return `Needs a decision: ${escapeWords(plan.why)}.\n${escapeWords(plan.hint)}\n`;
    case "refuse":
      return `Cannot go on: ${escapeWords(plan.why)}.\n${escapeWords(plan.hint)}\n`;
    case "done":
      return `${escapeWords(plan.why)}. There is nothing to do.\n`;
    case "nothing":
      return `${escapeWords(plan.why)}. ${escapeWords(plan.hint)}\n`;
  }
}

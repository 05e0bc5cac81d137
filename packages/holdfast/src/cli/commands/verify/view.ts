import type { Repaired } from "../../../app.ts";
import type { Problem, VerifyEvent } from "../../../ports/store.ts";
import { countText } from "../../output/count-text.ts";
import { escapeText } from "../../output/escape-text.ts";
import { paint } from "../../output/page.ts";
import type { Page } from "../../output/page.ts";
import { wrap } from "../../output/wrap.ts";

export interface Verified {
  readonly ok: boolean;
  readonly summary: Extract<VerifyEvent, { readonly kind: "summary" }> | null;
  readonly problems: readonly Problem[];
}

export function verifyText(verified: Verified, page: Page): string {
  const { summary } = verified;
  const read =
    summary === null
      ? "the check did not reach its end"
      : [
          countText(summary.runs, "run"),
          countText(summary.entries, "journal entry", "journal entries"),
          countText(summary.checkpoints, "checkpoint"),
          ...(summary.chunks === 0 ? [] : [countText(summary.chunks, "chunk")]),
        ].join(", ");
  const verdict = verified.ok ? paint(page, "green", "Intact") : paint(page, "red", "Damaged");
  const found = verified.ok ? "" : `${countText(verified.problems.length, "problem")} in `;
  return `${verdict}: ${found}${read}.\n${verified.problems.map((problem) => problemText(problem, page)).join("")}`;
}

function problemText(problem: Problem, page: Page): string {
  const place =
    problem.run === null ? "store" : problem.sequence === null ? problem.run : `${problem.run}@${problem.sequence}`;
  const entry = problem.entry === null ? "" : ` (entry ${problem.entry})`;
  const width = Number.isFinite(page.width) ? page.width - 4 : 1000;
  const lines = wrap(`${problem.code}${entry}: ${problem.what}`, width).map((line) => `    ${escapeText(line)}`);
  const trusted = [
    ...(problem.trustedTo === null ? [] : [`journal good to entry ${problem.trustedTo}`]),
    ...(problem.newestIntact === null ? [] : [`newest whole checkpoint ${problem.run ?? ""}@${problem.newestIntact}`]),
  ];
  const tail = trusted.length === 0 ? [] : [`    ${trusted.join("; ")}`];
  return `\n  ${paint(page, "red", escapeText(place))}\n${[...lines, ...tail].join("\n")}\n`;
}

export interface Repairing {
  readonly repaired: readonly Repaired[];
  readonly problems: readonly Problem[];
  readonly asked: boolean;
  readonly act: boolean;
}

export function repairText(params: Repairing): string {
  if (params.problems.length === 0 || !params.asked) return "";
  if (!params.act) {
    const marked = params.problems.flatMap(({ run, sequence }) =>
      run === null || sequence === null ? [] : [`${run}@${sequence}`],
    );
    return `\nWould set aside or pin again: ${marked.length === 0 ? "nothing" : marked.map(escapeText).join(", ")}\n`;
  }
  return params.repaired.map(repairedText).join("");
}

function repairedText({ run, quarantined, pinned, newestIntact }: Repaired): string {
  const name = (sequence: number): string => `${escapeText(run)}@${sequence}`;
  const whole = newestIntact === null ? "nothing whole is left in it" : `newest whole: ${name(newestIntact)}`;
  return [
    ...(quarantined.length === 0 ? [] : [`\nSet aside ${quarantined.map(name).join(", ")}; ${whole}\n`]),
    ...(pinned.length === 0 ? [] : [`\nPinned again ${pinned.map(name).join(", ")}\n`]),
  ].join("");
}

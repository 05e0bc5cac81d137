import type { StartPlan } from "../../../app.ts";
import type { Json } from "../../../core/json.ts";
import { escapeText } from "../../output/escape-text.ts";
import { paint } from "../../output/page.ts";
import type { Page } from "../../output/page.ts";
import { moneyText, timeText, tokensText } from "../../output/spent-text.ts";
import { wrap } from "../../output/wrap.ts";
import { fieldsText, sectionText } from "../show/fields.ts";

/** What `run --dry-run` prints: who would do what, where, and how far. */
export function planText(plan: StartPlan, page: Page): string {
  const { place, issue, work, config, shape } = plan;
  const title = issue?.title ?? (work.kind === "task" ? work.text : "");
  const what = work.kind === "issue" ? `issue #${work.number}` : work.kind;
  const fields = fieldsText(
    [
      ["work", title === "" ? what : `${what}: ${title}`],
      ["forge", plan.forge === null ? "none" : `${plan.forge.name} (${plan.forge.location})`],
      [
        "agent",
        config.agent === null ? "none named" : [config.agent, config.model].filter((part) => part !== null).join(":"),
      ],
      ["mode", config.seed === null ? config.mode : `${config.mode} (seed ${config.seed})`],
      ["branch", place?.branch ?? "none"],
      ["base", place?.base == null ? null : `${place.base.branch ?? "HEAD"} (${place.base.commit.slice(0, 12)})`],
      ["worktree", place?.worktree ?? "none: values only"],
      ["limits", limitsText(plan)],
    ],
    page,
  );
  const stages = shape.stages
    .filter((stage) => !Object.hasOwn(shape.ends, stage))
    .map((stage) => {
      const [first = "", ...rest] = wrap(
        `${escapeText(stage)}${stage === shape.initial ? " (first)" : ""}: ${arrows(plan, stage)}`,
        Math.min(page.width, READABLE) - HANGING.length,
      );
      const bold = paint(page, "bold", escapeText(stage)) + first.slice(escapeText(stage).length);
      return [`  ${bold}\n`, ...rest.map((line) => `${HANGING}${line}\n`)].join("").replaceAll(GLUE, " ");
    })
    .join("");
  return `${paint(page, "bold", `Would start ${escapeText(plan.id)}`)} (workflow ${escapeText(shape.name)})\n${fields}${sectionText("Stages", stages, page)}`;
}

/** What follows on what; going to the fatal end is possible from everywhere and need not be said each time. */
function arrows({ shape }: StartPlan, stage: string): string {
  return Object.entries(shape.transitions[stage] ?? {})
    .filter(([event]) => event !== "fatal")
    .map(([event, next]) => escapeText(`${event} → ${next}`).replaceAll(" ", GLUE))
    .join(", ");
}

/** An arrow is not parted from its ends. Cannot be in text that was escaped. */
const GLUE = "\0";
const HANGING = "      ";
const READABLE = 100;

function limitsText({ config, limit }: StartPlan): string {
  const { inputs } = config;
  const number = (value: Json | undefined, what: string) => (typeof value === "number" ? [`${value} ${what}`] : []);
  const amount = (value: number | null | undefined, text: (value: number) => string) =>
    value === null || value === undefined ? [] : [text(value)];
  return [
    ...number(inputs["maxIterations"], "iterations"),
    ...(inputs["review"] === false ? [] : number(inputs["maxReviews"], "reviews")),
    ...amount(limit.tokens, tokensText),
    ...amount(limit.microUsd, moneyText),
    ...amount(limit.milliseconds, timeText),
  ].join(", ");
}

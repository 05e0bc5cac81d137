/** Formats the plan of a run for `--dry-run`: stages, roles, worktree, and everything that the run would execute. */
import type { Json } from "@holdfast/core/json";
import { filesTasks, forgeUse, isBuiltIn, rolesOf } from "@holdfast/workflows/built-in";
import type { AgentRole } from "@holdfast/workflows/plugin";
import { previewAgent } from "../check-agents.ts";
import { agentFileItems } from "../config/agent-files.ts";
import type { ConsentItem } from "../config/consent.ts";
import type { EffectiveConfig } from "../config/effective-config.ts";
import { commandsOf } from "../observe-start.ts";
import type { StartPlan } from "../plan-start.ts";
import type { Shell } from "./command.ts";
import { type Page, paint } from "./output/page.ts";
import { moneyText, timeText, tokensText } from "./output/quantities.ts";
import { withoutPassword } from "@holdfast/postgres/store-url";
import { escapeText, fieldsText, sectionText, wrap } from "./output/text.ts";

/** The output of `run --dry-run`: agents, stages, worktree and limits. */
export function planText(plan: StartPlan, page: Page): string {
  const { issue, work, config, shape } = plan;
  const { id, place, filesIssue } = namedByIssue(plan);
  const title = issue?.title ?? (work.kind === "task" ? work.text : "");
  const what = work.kind === "issue" ? `issue #${work.number}` : work.kind;
  const fields = fieldsText(
    [
      ["work", title === "" ? what : `${what}: ${title}`],
      ["forge", plan.forge === null ? "none" : `${plan.forge.name} (${plan.forge.location})`],
      ["issue", filesIssue ? "files a new one with this text; N is its number" : null],
      ["result", resultText(plan)],
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
  return `${paint(page, "bold", `Would start ${escapeText(id)}`)} (workflow ${escapeText(shape.name)})\n${fields}${sectionText("Stages", stages, page)}`;
}

/**
 * With a forge, the run of a task is named after the issue that it files first. The number is not known before, so N
 * stands for it.
 */
export function namedByIssue({
  id,
  place,
  work,
  forge,
  shape,
  workflow,
}: Pick<StartPlan, "id" | "place" | "work" | "forge" | "shape" | "workflow">): Pick<StartPlan, "id" | "place"> & {
  readonly filesIssue: boolean;
} {
  if (work.kind !== "task" || forge === null || !filesTasks(shape.name)) return { id, place, filesIssue: false };
  const name = "issue-N";
  if (place === null) return { id: name, place, filesIssue: true };
  const branch = workflow.naming?.branch === undefined ? place.branch.replace(id, name) : "named after the issue";
  return { id: name, place: { ...place, branch, worktree: place.worktree.replace(id, name) }, filesIssue: true };
}

/** What others see of the run; null: the workflow is not built in, or stops at a phase that the user named. */
function resultText({ shape, forge, work, config: { inputs } }: StartPlan): string | null {
  if (!isBuiltIn(shape.name)) return null;
  if (typeof inputs["target"] === "string" && inputs["target"] !== "ready-to-merge") return null;
  const isLocal = work.kind === "task" && forgeUse(shape.name) === "none" && inputs["pullRequest"] !== true;
  return forge === null || isLocal ? "a branch, which is not pushed" : "pushes the branch and opens a pull request";
}

/** The transitions of a stage. The transition to the fatal end is possible everywhere and is omitted. */
function arrows({ shape }: StartPlan, stage: string): string {
  return Object.entries(shape.transitions[stage] ?? {})
    .filter(([event]) => event !== "fatal")
    .map(([event, next]) => escapeText(`${event} → ${next}`).replaceAll(" ", GLUE))
    .join(", ");
}

/** Keeps an arrow on one line with its ends. Escaped text cannot contain this character. */
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

/** Everything that a run would execute or write to, as `run --dry-run` prints it. Nothing of it is started. */
interface PlanUses {
  readonly agents: readonly {
    readonly role: string;
    readonly agent: string;
    /** Program and arguments. */
    readonly argv: readonly string[];
    /** Names of variables, without their values. */
    readonly env: readonly string[];
  }[];
  readonly setup: string | null;
  /** Files and patterns that are copied into the worktree. */
  readonly copy: readonly string[];
  readonly gate: string | null;
  readonly checks: readonly string[];
  readonly hooks: string;
  readonly yolo: boolean;
  readonly store: string;
  readonly worktrees: string;
  readonly mirror: string | null;
  readonly aiwg: string | null;
  readonly forge: string;
  /** Settings that need the user's consent before the run could start. */
  readonly untrusted: readonly string[];
}

/** A planned run: to start, to execute again or to resume. */
interface PlannedRun {
  readonly config: StartPlan["config"];
  readonly shape: { readonly name: string };
  readonly forge: object | null;
}

/** `more` needs consent besides the settings: what an imported run brings along. */
export async function planUses(
  shell: Shell,
  config: EffectiveConfig,
  plan: PlannedRun,
  more: readonly ConsentItem[] = [],
): Promise<PlanUses> {
  const { settings } = config;
  const { work } = settings;
  const { inputs } = plan.config;
  const yolo = inputs["yolo"] === true;
  const { args, env } = work.agents;
  const agents = (await rolesAndFallback(plan, work.errors.fallback.agents)).map(({ role, agent }) => {
    const cwd = shell.cwd;
    const preview = previewAgent({ named: agent, role, cwd, yolo, args, env });
    return { role, agent, argv: preview?.argv ?? [], env: preview?.env ?? [] };
  });
  const { mirror, aiwg, forge } = work;
  const named = agents.map(({ agent }) => agent);
  const own = new Set(agentFileItems({ agents: named, root: shell.consent.root }).map(({ digest }) => digest));
  // Only the project files of this run's agents matter.
  const untrusted = (await shell.consent.items(more)).filter(
    ({ item, trusted }) => !trusted && (item.danger !== "loads" || own.has(item.digest)),
  );
  return {
    agents,
    setup: settings.workspace.setup?.join(" && ") || null,
    copy: settings.workspace.copy,
    ...commandsOf(inputs),
    hooks: plan.forge === null ? "none" : "pre-push of git, when the branch is pushed",
    yolo,
    store: settings.store === null ? "in the git directory" : withoutPassword(settings.store),
    worktrees: settings.workspace.worktrees ?? "next to the main worktree",
    mirror: mirror.format === null ? null : `${mirror.format} in ${mirror.directory ?? "the run's worktree"}`,
    aiwg: aiwg.mirror ? (aiwg.directory ?? LAYOUT_PLACES[aiwg.layout]) : null,
    forge: [forge.kind, forge.host, forge.path].filter((part) => part !== null).join(" "),
    untrusted: untrusted.map(({ item }) => item.key),
  };
}

/** Where the files for other tools are. */
const LAYOUT_PLACES = {
  own: "the main worktree if it has .aiwg, else the store",
  seed: "the main worktree",
} as const;

/** Never truncated, however narrow the page: a truncated command could hide its end. */
export function usesText(uses: PlanUses, page: Page, run?: string): string {
  const trust = run === undefined ? "trust" : `trust ${run}`;
  const missing = `missing for ${uses.untrusted.join(", ")}: ${page.program} ${trust}`;
  // Names of variables and words of a command are lists, so lines may break between two of them.
  const rows = (label: string, words: readonly string[]): readonly (readonly [string, string])[] =>
    wrap(words.join(" "), WIDTH - LABEL - 2).map((line, at) => [at === 0 ? label : "", line]);
  const shown = new Map<string, string>();
  const variables = (role: string, env: readonly string[]): readonly (readonly [string, string])[] => {
    const names = env.join(" ");
    const first = shown.get(names);
    if (first !== undefined) return [["  variables", `as for ${first}`]];
    shown.set(names, role);
    return rows("  variables", env);
  };
  const fields: readonly (readonly [string, string])[] = [
    ...uses.agents.flatMap(({ role, agent, argv, env }): readonly (readonly [string, string])[] => [
      [role, agent],
      ...(page.terminal ? rows("  runs", argv) : ([["  runs", argv.join(" ")]] as const)),
      ...variables(role, env),
    ]),
    ["set-up", uses.setup ?? "none"],
    ["copies", uses.copy.join(", ") || "none"],
    ["gate", uses.gate ?? "none"],
    ["checks", uses.checks.join(" && ") || "none"],
    ["hooks", uses.hooks],
    ["yolo", uses.yolo ? "yes: the agent may act without asking" : "no"],
    ["store", uses.store],
    ["worktrees", uses.worktrees],
    ["mirror", uses.mirror ?? "none"],
    [".aiwg", uses.aiwg ?? "none"],
    ["forge", uses.forge],
    ["consent", uses.untrusted.length === 0 ? "nothing is missing" : missing],
  ];
  const lines = fields.map(([label, value]) => `${paint(page, "dim", label.padEnd(LABEL))}  ${escapeText(value)}\n`);
  return sectionText("Would use", lines.join(""), page);
}

const LABEL = 11;
const WIDTH = 80;

/** Each role with its agent, and the fallback agents. */
export async function rolesAndFallback(
  plan: {
    readonly config: Pick<StartPlan["config"], "agent" | "model" | "inputs">;
    readonly shape: { readonly name: string };
  },
  fallback: readonly string[],
): Promise<readonly AgentRole[]> {
  const { agent, model, inputs } = plan.config;
  const own = agent === null ? null : [agent, model].filter((part) => part !== null).join(":");
  const roles = await rolesOf(plan.shape.name, { agent: own, options: inputs });
  return [...roles, ...fallback.map((one) => ({ role: "fallback", agent: one }))];
}

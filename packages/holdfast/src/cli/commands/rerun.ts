/** The `rerun` command: executes a run again and reports the first divergence. */
import { type FirstDivergence, type Outcome, cutValues } from "@holdfast/core/recording";
import type { RerunReport } from "../../replay.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import { executeRun } from "../execute-run.ts";
import type { Exit } from "../exit.ts";
import { checkNewRunId } from "../operands.ts";
import { type Page, paint } from "../output/page.ts";
import { countText, moneyText, spentKnown, timeText, tokensSpentText } from "../output/quantities.ts";
import { escapeText, fieldsText } from "../output/text.ts";
import { workflowFile } from "../run-consent.ts";
import { findStarting, stillStarting } from "../run-holder.ts";
import { planText, planUses, rolesAndFallback, usesText } from "../run-plan.ts";

export const spec = {
  name: "rerun",
  summary: "run the same work again, and compare the two runs",
  details: [
    "Starts a new run with the same work, options, agent, limits, mode and seed, from the same commit, in its own worktree and on its own branch. Agents and commands are really executed. Before its first push, pull request, comment or label the new run waits for your answer (exit status 4): `holdfast approve RUN publish` or `holdfast approve RUN stop`. With --publish it does not ask. `holdfast replay` checks the record without executing anything.",
    "Exit status: that of the run, or 8 if it had the same result, and a step, the files or a verdict differ.",
  ],
  operands: [{ name: "RUN", about: "the run", required: true, completes: "run" }],
  consent: "works",
  flags: {
    as: { type: "text", value: "RUN", about: "id of the new run (default: generated)" },
    workflow: {
      type: "text",
      value: "FILE",
      about: "the file of your own workflow",
      completes: "file",
    },
    publish: { type: "boolean", about: "let it push, open a pull request and comment without asking" },
    "dry-run": { type: "boolean", about: "show what would be done, and do nothing" },
  },
  examples: [
    { line: "holdfast rerun issue-42", about: "check whether it does the same again" },
    { line: "holdfast rerun issue-42 --publish", about: "let it open its own pull request" },
    { line: "holdfast rerun issue-42 --dry-run", about: "show branch, worktree and base of the new run" },
  ],
  windsDown: true,
  json: 'One line for each event, then {"kind": "comparison", "of", "run", "outcome", "compared": {"same", "step", "files", "verdict"}, "spent": {"a", "b"}, "ended": {"a", "b"}}; with --dry-run {"kind": "plan", "plan": {...}}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const address = input.operand(0);
  const as = input.text("as");
  checkNewRunId(as);
  const holdfast = await shell.open({ create: false });
  const [starting] = address === undefined ? [] : await findStarting(holdfast, address);
  if (starting !== undefined) throw stillStarting(starting, "there is nothing to rerun yet");
  const { id: of } = await holdfast.resolveRun(address);
  const workflow = await workflowFile(shell, holdfast, { run: of, named: input.text("workflow") });
  const plan = await holdfast.work.planRerun({
    run: of,
    publish: input.on("publish"),
    ...workflow,
    ...(as === undefined ? {} : { id: as }),
  });
  if (input.on("dry-run")) {
    const { workflow: _functions, ...shown } = plan;
    const uses = await planUses(shell, await shell.consent.stated(), plan);
    shell.print({
      json: () => ({ kind: "plan", plan: { ...shown, uses } }),
      text: (page) => planText(plan, page) + usesText(uses, page),
    });
    return "done";
  }
  const { agentFileItems } = await import("../../config/agent-files.ts");
  const { fallback } = (await shell.config()).settings.work.errors;
  const agents = (await rolesAndFallback(plan, fallback.agents)).map(({ agent }) => agent);
  await shell.consent.require({ uses: [], more: agentFileItems({ agents, root: shell.consent.root }), agents });
  let report: RerunReport | undefined;
  const exit = await executeRun(shell, holdfast, async (listen) => {
    report = await holdfast.work.rerun({ of, plan, listen, signal: shell.signal });
    return report;
  });
  const compared = report;
  if (compared === undefined) return exit;
  const { a, b } = compared.spent;
  const spent = { a: spentKnown(a), b: spentKnown(b) };
  if (shell.json) shell.write(`${JSON.stringify({ kind: "comparison", ...compared, spent })}\n`);
  else shell.write(rerunText(compared, shell.page));
  return exit === "done" && isDiverged(compared) ? "diverged" : exit;
}

/** Two agents may answer alike and leave different files. */
function isDiverged({ compared: { step, files, verdict } }: RerunReport): boolean {
  return step !== null || files !== null || verdict !== null;
}

function rerunText(report: RerunReport, page: Page): string {
  const { of, run, compared, spent, ended } = report;
  const { same, step, files, verdict } = compared;
  const names = `${escapeText(run)} (b) beside ${escapeText(of)} (a)`;
  const verdictText = isDiverged(report) ? paint(page, "yellow", "Diverged") : paint(page, "green", "The same");
  return `\n${verdictText}: ${names}\n${fieldsText(
    [
      ["same", countText(same, "result from the start", "results from the start")],
      ["step", partingText(step, page)],
      ["files", partingText(files, page)],
      ["verdict", partingText(verdict, page)],
      ["ended", ended.a === ended.b ? `both ${ended.a}` : `a ${ended.a}, b ${ended.b}`],
      ["tokens", `a ${tokensSpentText(spent.a) ?? "none"}, b ${tokensSpentText(spent.b) ?? "none"}`],
      ["cost", `a ${costText(spent.a)}, b ${costText(spent.b)}`],
      ["time", `a ${timeText(spent.a.milliseconds)}, b ${timeText(spent.b.milliseconds)}`],
    ],
    page,
  )}`;
}

/** The label of a field and the space after it. */
const LABEL = 12;

function costText({ microUsd, unpriced }: RerunReport["spent"]["a"]): string {
  return (unpriced ?? 0) > 0 && microUsd === 0 ? "unknown" : moneyText(microUsd);
}

function partingText(parting: FirstDivergence | null, page: Page): string {
  if (parting === null) return "no difference";
  const { a, b, field, expected, actual } = parting;
  const at = a ?? b;
  const place = at === null ? "" : placeText(at);
  if (a === null || b === null) return `${place}: only in ${a === null ? "b" : "a"}`;
  const name = `${place}, ${field === "" ? "tree" : field.slice(1).replaceAll("/", ".")}`;
  // Both values fit into the line, each with the marks where it is cut.
  const room = Math.floor((page.width - LABEL - name.length - ": a …, b …".length - 2) / 2);
  const [was, is] = cutValues(expected, actual, Number.isFinite(room) ? Math.max(8, room) : 500);
  return `${name}: a ${was}, b ${is}`;
}

function placeText({ iteration, stage, step }: Outcome): string {
  const round = iteration === 0 ? "" : `iteration ${iteration}, `;
  return `${round}stage ${stage}${step === null ? "" : `, step ${step}`}`;
}

/** The `compare` command: shows runs side by side and tags the chosen one. */
import type { Amounts } from "@holdfast/core/position";
import { isHeld } from "@holdfast/core/status";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import type { EffectSeen, HistoryStep } from "../../compare-history.ts";
import { type CheckTrail, type CodeChange, allPass } from "../../compare-measures.ts";
import type { ComparedPair, ComparedSide, Comparison } from "../../compare-runs.ts";
import type { Holdfast } from "../../holdfast.ts";
import { pageLink } from "../../ui/ui-state.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { findRun, worktreePaths } from "../operands.ts";
import { type Page, type Style, paint } from "../output/page.ts";
import { costText, countText, spentKnown, timeText, tokensSpentText } from "../output/quantities.ts";
import { RUN_COLUMN, reasonLine, stageText, statusCell } from "../output/run-text.ts";
import { type Cell, renderTable } from "../output/table.ts";
import { escapeLines, escapeText, hangingIndent, valueLine } from "../output/text.ts";
import { quoteWord } from "../shell.ts";

export const spec = {
  name: "compare",
  summary: "compare runs side by side, and choose one",
  details: [
    "Shows status, code, checks, scores, metrics, effects, cost and time of two to eight runs, of any workflow and with any status. It only reads and takes no lease. RUN is the run as it is now, with the files of its newest checkpoint; RUN@7 is the run as it was at that checkpoint. The status is always that of the run now.",
    "Changed lines are counted against the base: the checkpoint that all runs were forked from, else the commit that all started from, else the start of each run. They are also counted between each two runs. * marks the best value of a row; there is no total score.",
    "--choose tags the checkpoint of the chosen run as `chosen`, so that retention keeps it, and prints what to do next. The same write removes that tag from the other runs. Nothing else changes, and a second call changes nothing.",
  ],
  operands: [
    { name: "RUN", about: "a run id, an issue number or an address", required: true, completes: "address" },
    { name: "RUN", about: "another, up to eight in all", required: true, completes: "address", many: true },
  ],
  consent: "reads",
  paths: true,
  flags: {
    patch: {
      type: "boolean",
      short: "p",
      about: "also print the patch: between two runs, or of each run against its base",
    },
    stat: { type: "boolean", about: "also print the number of changed lines in each file" },
    choose: { type: "text", value: "RUN", about: "the run to choose", completes: "address" },
  },
  examples: [
    { line: "holdfast compare fix-login other-way", about: "a run and its fork" },
    {
      line: "holdfast compare fix-login@3 fix-login --patch -- src",
      about: "what changed since checkpoint 3, in one folder",
    },
    { line: "holdfast compare one two three --choose two", about: "choose the second, and print what to do next" },
  ],
  reads: true,
  json: '{"runs": [{"id", "run", "sequence", "workflow", "work", "status": {"kind", ...}, "stage", "iteration", "attempts", "calls", "failures", "checks": [{"name", "trail": [true], "last": {"pass", "reason"}}], "score", "scoreTrail", "scores": [{"name", "value"}], "metrics": [{"name", "value"}], "spent", "ownSpent", "time": {"wall", "work"}, "effects": [{"kind", "target", "state", "adopted", "number"}], "pullRequest", "lineage": [{"run", "sequence"}], "branch", "worktree", "tree", "uncommitted", "tags", "damage": ["..."], "base": {"kind", "name", "tree"}, "code": {"files", "added", "removed", "changed": [{"path", "status", "from", "added", "removed"}]}}], "pairs": [{"a", "b", "code", "values": [{"path", "from", "to"}] or null, "diverged": {"common": {"run", "sequence"} or null, "beginning": "checkpoint" | "alike" | "none", "first": {"shared", "kind", "a", "b"} or null}}], "best": [{"dimension", "ids"}], "diffs": [{"from", "to", "text"}], "choice": null or {"id", "tag", "untagged": ["RUN@n"]}}. "spent" counts what came before a fork too, "ownSpent" only what came after; times are milliseconds; "code" is null where files are missing, "values" where a workflow executed a run.',
} as const satisfies CommandSpec;

const MOST = 8;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  if (input.operands.length > MOST)
    throw usageError(`${input.operands.length} runs are too many to compare`, `Compare ${MOST} at most.`);
  if (input.on("patch") && input.on("stat"))
    throw usageError("--patch and --stat ask for two different things", "Choose one of them.");
  const holdfast = await shell.open({ create: false, writes: input.text("choose") !== undefined });
  const addresses: string[] = [];
  for (const typed of input.operands) addresses.push(await addressOf(holdfast, typed));
  const winner = input.text("choose");
  const chosen = winner === undefined ? undefined : await addressOf(holdfast, winner);
  const paths = await readPaths(shell, holdfast, { addresses, typed: input.paths });
  const text = input.on("patch") ? "patch" : input.on("stat") ? "stat" : undefined;
  const compared: Comparison = await holdfast.compare(addresses, {
    ...(paths.length === 0 ? {} : { paths }),
    ...(text === undefined ? {} : { text }),
  });
  const choice = chosen === undefined ? null : await choose(shell, holdfast, { compared, chosen });
  const path = (repository: string): string =>
    `/compare?${addresses.map((address) => `r=${encodeURIComponent(`${repository}/${address}`)}`).join("&")}`;
  const link = pageLink(shell.env, holdfast.store.location, path);
  shell.print({
    json: () => ({ ...comparisonJson(compared, choice), ...link.json }),
    ...(compared.diffs.length > 0 ? { content: true as const } : {}),
    text: (page) => comparisonText(compared, page) + (choice === null ? "" : `\n${choiceText(compared, choice, page)}`),
  });
  shell.notify(link.text);
  return "done";
}

/** The document of `--json`. */
export function comparisonJson(compared: Comparison, choice: Choice | null) {
  return { ...compared, runs: compared.runs.map(sideJson), choice };
}

function sideJson(side: Comparison["runs"][number]) {
  const { spent, ownSpent } = side;
  return { ...side, spent: spentKnown(spent), ownSpent: ownSpent === null ? null : spentKnown(ownSpent) };
}

/** Resolves an issue number to its run, as other commands do. */
async function addressOf(holdfast: Holdfast, typed: string): Promise<string> {
  return typed.includes("@") ? typed : (await findRun(holdfast, typed)).id;
}

/**
 * Resolves paths relative to the current directory: in the worktree of one of the runs, or in any other worktree of the
 * repository.
 */
async function readPaths(
  shell: Shell,
  holdfast: Holdfast,
  params: { readonly addresses: readonly string[]; readonly typed: readonly string[] },
): Promise<readonly string[]> {
  if (params.typed.length === 0) return [];
  const here = await holdfast.workspaces?.open(shell.cwd).catch(() => undefined);
  const roots: string[] = here === undefined ? [] : [here.root];
  for (const address of params.addresses) {
    const { id } = await holdfast.resolveRun(address);
    const root = (await (await holdfast.run(id)).workspace())?.root;
    if (root !== undefined) roots.push(root);
  }
  return await worktreePaths({ paths: params.typed, cwd: shell.cwd, roots });
}

/** The tag of every chosen checkpoint. */
export const CHOSEN = "chosen";

interface Choice {
  readonly id: string;
  readonly tag: string;
  /** Checkpoints of the other runs that had been chosen before. */
  readonly untagged: readonly string[];
}

/** One write: after a kill the choice is made or not, and the compared runs never have more than one winner. */
async function choose(
  shell: Shell,
  holdfast: Holdfast,
  params: { readonly compared: Comparison; readonly chosen: string },
): Promise<Choice> {
  const { runs } = params.compared;
  const winner = findWinner(runs, params.chosen);
  const { id, run, sequence } = winner;
  if (sequence === null) {
    throw new HoldfastError({
      code: "NOTHING_TO_RESUME",
      message: `Run ${run} has no checkpoint that could be kept`,
      hint: `Save one with \`holdfast checkpoint --run ${run}\`.`,
    });
  }
  const others = [...new Set(runs.map((one) => one.run))].filter((one) => one !== run);
  const work = async (): Promise<Choice> => {
    const untagged: string[] = [];
    for (const other of others) {
      const handle = await holdfast.run(other);
      for await (const { id: before, tags } of handle.checkpoints()) if (tags.includes(CHOSEN)) untagged.push(before);
    }
    await (await holdfast.run(run)).tag(sequence, CHOSEN, { move: true, from: others });
    return { id, tag: CHOSEN, untagged };
  };
  return await shell.finish(work(), { done: () => `${id} was chosen` });
}

/** By run if only one side belongs to it; otherwise by checkpoint. */
function findWinner(runs: readonly ComparedSide[], chosen: string): ComparedSide {
  const [only, second] = runs.filter(({ id, run }) => id === chosen || run === chosen);
  if (only !== undefined && (second === undefined || second.id === only.id)) return only;
  const ids = [...new Set(runs.map(({ id }) => id))].join(", ");
  throw usageError(
    only === undefined ? `${chosen} is none of the compared` : `${chosen} could mean several of the compared`,
    `Choose one of ${ids}.`,
  );
}

/** Two runs are shown in two columns. More runs are rows of one table, with a block each for what does not fit there. */
export function comparisonText(compared: Comparison, page: Page): string {
  const { runs, pairs, best } = compared;
  const body =
    runs.length === 2 ? besideText(compared, page) : overviewText(compared, page) + blocksText(compared, page);
  const bases = hangingIndent({ label: "base", labelWidth: LABEL, text: basesText(runs) }, page);
  const between = pairs.map((pair) => pairText(pair, { page, alone: pairs.length === 1 })).join("");
  const marks = best.map(({ dimension, ids }) => `${dimension}: ${ids.join(", ")}`).join("; ");
  const verdict = hangingIndent(
    { label: "best *", labelWidth: LABEL, text: marks === "" ? "no run in any dimension" : marks },
    page,
  );
  return `${body}\n${damageText(runs, page)}${bases}${between}${verdict}${diffsText(compared, page)}`;
}

const LABEL = 9;

function isBest(compared: Comparison, id: string, dimension: string | undefined): boolean {
  return compared.best.some((best) => best.dimension === dimension && best.ids.includes(id));
}

function cellOf(compared: Comparison, id: string, row: Row | undefined): Cell {
  if (row === undefined) return { text: "-", style: "dim" };
  const marked = isBest(compared, id, row.dimension);
  const style = row.style ?? (marked ? ("green" as const) : undefined);
  return { text: `${row.text}${marked ? " *" : ""}`, ...(style === undefined ? {} : { style }) };
}

function besideText(compared: Comparison, page: Page): string {
  const sides = compared.runs.map((run) => ({
    id: run.id,
    rows: new Map(rowsOf(run, page).map((row) => [row.label, row])),
  }));
  const columns = [{ title: "" }, ...sides.map(({ id }) => ({ title: id, shrinkTo: 16 }))];
  const rows = labelsOf(sides.map(({ rows: all }) => [...all.keys()])).map((label): readonly Cell[] => [
    { text: label, style: "dim" },
    ...sides.map(({ id, rows: all }) => cellOf(compared, id, all.get(label))),
  ]);
  return renderTable({ columns, rows }, page);
}

/** Every label once. A label that only a later run has follows the label that precedes it there. */
export function labelsOf(sides: readonly (readonly string[])[]): readonly string[] {
  const labels: string[] = [];
  for (const side of sides) {
    let at = 0;
    for (const label of side) {
      const known = labels.indexOf(label);
      if (known === -1) labels.splice(at, 0, label);
      at = (known === -1 ? at : known) + 1;
    }
  }
  return labels;
}

function overviewText(compared: Comparison, page: Page): string {
  const columns = [
    RUN_COLUMN,
    { title: "STATUS NOW" },
    { title: "STAGE", shrinkTo: 8, optional: true, expendable: 3 },
    { title: "CODE" },
    { title: "CHECKS", optional: true },
    { title: "SCORE", optional: true, align: "right" },
    { title: "TOKENS", optional: true, align: "right", expendable: 2 },
    { title: "COST", optional: true, align: "right" },
    { title: "TIME", align: "right", expendable: 1 },
  ] as const;
  const rows = compared.runs.map((run): readonly Cell[] => {
    const { checks, spent, stage, iteration } = run;
    const pass = allPass(checks);
    const cell = (text: string, dimension?: string): Cell =>
      text === ""
        ? { text }
        : cellOf(compared, run.id, { label: "", text, ...(dimension === undefined ? {} : { dimension }) });
    return [
      { text: run.id, style: "bold" },
      statusCell(run.status),
      cell(stage === null ? "" : stageText({ stage, iteration })),
      cell(codeText(run.code)),
      cell(pass === null ? "" : pass ? "pass" : "fail", "checks"),
      cell(run.score === null ? "" : String(run.score), "score"),
      cell(tokensCell(spent), "tokens"),
      cell(costText(spent) ?? "", "cost"),
      cell(timeText(run.time.work), "time"),
    ];
  });
  return renderTable({ columns, rows }, page);
}

/** The column's title states the unit, tokens. */
function tokensCell(spent: Amounts): string {
  return tokensSpentText(spent)?.replaceAll(/ tokens\b|tokens /g, "") ?? "";
}

const IN_OVERVIEW: ReadonlySet<string> = new Set(["status now", "stage", "code", "score", "tokens", "cost", "at work"]);

function blocksText(compared: Comparison, page: Page): string {
  return compared.runs
    .map((run) => {
      const rows = rowsOf(run, page).filter(({ label }) => !IN_OVERVIEW.has(label));
      if (rows.length === 0) return "";
      const width = Math.max(...rows.map(({ label }) => label.length));
      const lines = rows.map((row) => {
        const { text } = cellOf(compared, run.id, row);
        return hangingIndent({ label: `  ${escapeText(row.label)}`, labelWidth: width + 2, text }, page);
      });
      return `\n${paint(page, "bold", escapeText(run.id))}\n${lines.join("")}`;
    })
    .join("");
}

function basesText(runs: readonly ComparedSide[]): string {
  const [first] = runs;
  if (first?.base?.kind === "fork_point") return `all come from ${first.base.name}`;
  if (first?.base?.kind === "base_commit") return `all began from commit ${first.base.name.slice(0, 12)}`;
  if (first?.base?.kind === "same_beginning") return `all began with the files of ${first.base.name}`;
  const own = runs.map(
    ({ id, base }) => `${id} from ${base === null ? "nothing that has files" : shortName(base.name)}`,
  );
  return `each its own beginning: ${own.join(", ")}`;
}

/** Printed before everything that was read from the damaged journals. */
function damageText(runs: readonly ComparedSide[], page: Page): string {
  return runs
    .map(({ run, damage: [first, ...more] }) => {
      if (first === undefined) return "";
      const rest = more.length === 0 ? "" : ` (and ${more.length} more)`;
      const text = `The journal of ${first}${rest}. This comparison may be wrong: \`holdfast verify ${run}\`.`;
      return hangingIndent({ label: "damaged", labelWidth: LABEL, text }, page);
    })
    .join("");
}

function shortName(name: string): string {
  return /^[0-9a-f]{40,64}$/.test(name) ? name.slice(0, 12) : name;
}

function pairText(
  { a, b, code, values, diverged }: ComparedPair,
  { page, alone }: { readonly page: Page; readonly alone: boolean },
): string {
  const names = alone ? "" : `${a} and ${b}: `;
  const files =
    code === null
      ? "their files cannot be compared"
      : code.files === 0
        ? "the files are the same"
        : `${changeText(code)} from ${alone ? "the first to the second" : "one to the other"}`;
  if (values === null) {
    const text = `${names}${files}; ${divergedText({ a, b, diverged })}`;
    return hangingIndent({ label: "between", labelWidth: LABEL, text }, page);
  }
  // The steps of a run that was saved by hand are its caller's, so only its values and files can differ.
  const counted =
    values.length === 0
      ? "the values are the same"
      : `${countText(values.length, "value")} ${values.length === 1 ? "differs" : "differ"}`;
  const head = hangingIndent(
    { label: "between", labelWidth: LABEL, text: `${names}${counted}; ${files}; ${originText(diverged)}` },
    page,
  );
  const shown = values.slice(0, MOST_VALUES).map((change) => `  ${valueLine(change, page)}`);
  const more = values.length > MOST_VALUES ? [`  all of them: ${page.program} diff ${escapeText(`${a} ${b}`)}\n`] : [];
  return [head, ...shown, ...more].join("");
}

const MOST_VALUES = 10;

/** Patches are written unchanged to a pipe, and last, where `git apply` finds them. */
function diffsText({ diffs }: Comparison, page: Page): string {
  return diffs
    .map(({ from, to, text }) => {
      const title = `From ${shortName(from)} to ${to}${text === "" ? ": no difference" : ":"}`;
      return `\n${paint(page, "bold", escapeText(title))}\n${page.terminal ? escapeLines(text) : text}`;
    })
    .join("");
}

/** One dimension of one run. `dimension`: its name in the list of best runs. */
interface Row {
  readonly label: string;
  readonly text: string;
  readonly dimension?: string;
  readonly style?: Style;
}

/** The same order for every run, so that they can be compared in columns. A dimension without a value is left out. */
function rowsOf(run: ComparedSide, page: Page): readonly Row[] {
  const { iteration, attempts, spent, ownSpent, time, failures } = run;
  const tried = Object.entries(attempts).filter(([, count]) => count > 0);
  const [sole] = run.checks;
  return [
    ...statusRows(run, page),
    { label: "stage", text: run.stage === null ? "" : stageText({ stage: run.stage, iteration }) },
    { label: "code", text: codeText(run.code) },
    // The mark covers all checks together, so the first check shows it.
    ...run.checks.map((check) => ({
      label: ownLabel("check", check.name),
      text: checkText(check, page),
      style: check.last.pass ? ("green" as const) : ("red" as const),
      ...(check === sole ? { dimension: "checks" } : {}),
    })),
    { label: "score", text: scoreText(run), dimension: "score" },
    ...run.scores.map(({ name, value }) => ({
      label: ownLabel("score", name),
      text: String(value),
      dimension: `score ${name}`,
    })),
    ...run.metrics.map(({ name, value }) => ({
      label: ownLabel("metric", name),
      text: String(value),
      dimension: `metric ${name}`,
    })),
    { label: "calls", text: run.calls === 0 ? "" : String(run.calls) },
    { label: "failed steps", text: failures === 0 ? "" : String(failures) },
    { label: "attempts", text: tried.map(([name, count]) => `${name} ${count}`).join(", ") },
    { label: "tokens", text: tokensSpentText(spent) ?? "", dimension: "tokens" },
    { label: "cost", text: costText(spent) ?? "", dimension: "cost" },
    { label: "since the fork", text: ownSpent === null ? "" : (tokensSpentText(ownSpent) ?? "") },
    { label: "at work", text: timeText(time.work), dimension: "time" },
    { label: "wall clock", text: timeText(time.wall) },
    ...run.effects.map((effect, at) => ({
      label: at === 0 ? "effects" : `effects ${at + 1}`,
      text: effectText(effect),
    })),
  ].filter(({ text }) => text !== "");
}

/** Prefixes a workflow's own label that equals a label of all runs, so that it cannot hide it. */
function ownLabel(kind: "check" | "score" | "metric", name: string): string {
  return OURS.has(name) ? `${kind} ${name}` : name;
}

const OURS: ReadonlySet<string> = new Set(
  "why stage code score calls attempts tokens cost effects"
    .split(" ")
    .concat("status now", "failed steps", "at work", "wall clock"),
);

function statusRows({ status }: ComparedSide, page: Page): readonly Row[] {
  const reason = status.kind === "done" ? null : reasonLine(status, page);
  return [{ label: "status now", ...statusCell(status) }, ...(reason === null ? [] : [{ label: "why", text: reason }])];
}

function codeText(code: CodeChange | null): string {
  if (code === null) return "no files";
  if (code.files === 0) return "as the base";
  return changeText(code);
}

function changeText({ files, added, removed }: CodeChange): string {
  return `${countText(files, "file")}, +${added} -${removed}`;
}

/** The newest verdicts, oldest first. */
function checkText({ trail, last }: CheckTrail, page: Pick<Page, "ascii">): string {
  const [yes, no] = page.ascii === true ? ["+", "-"] : ["✓", "✗"];
  const shown = trail
    .slice(-SHOWN)
    .map((pass) => (pass ? yes : no))
    .join("");
  const more = trail.length > SHOWN ? ".." : "";
  return `${last.pass ? "passes" : "fails"}${trail.length === 1 ? "" : ` ${more}${shown}`}`;
}

const SHOWN = 10;

function scoreText({ score, scoreTrail }: ComparedSide): string {
  if (score === null) return "";
  return scoreTrail.length < 2 ? String(score) : `${score} (${scoreTrail.slice(-6).join(" ")})`;
}

function effectText({ kind, target, state, adopted, number }: EffectSeen): string {
  const name = number === null ? kind : `${kind} #${number}`;
  const how = state === "done" ? (adopted ? " (adopted)" : "") : ` (${state})`;
  return `${name}${how} on ${target}`;
}

function originText({ common }: ComparedPair["diverged"]): string {
  return common === null ? "no common checkpoint" : `both come from ${common.run}@${common.sequence}`;
}

/** Describes where two runs diverged, as a sentence without its full stop. */
function divergedText({ a, b, diverged }: Pick<ComparedPair, "a" | "b" | "diverged">): string {
  const { beginning, first } = diverged;
  if (beginning === "none") return "they have no common beginning, so they differ from the start";
  const from = originText(diverged);
  if (first === null) return `${from}; they did the same`;
  const after = first.shared === 0 ? "from the first step on" : `after ${countText(first.shared, "step")} in common`;
  const did = (id: string, step: HistoryStep | null): string =>
    `${id} ${step === null ? "did nothing more" : `did ${step.name.replace(/^(.*) \(stage\)$/, "stage $1")}`}`;
  switch (first.kind) {
    case "result":
      return `${from}; ${after} ${first.a?.name ?? ""} gave different results`;
    case "step":
    case "length":
      return `${from}; ${after} ${did(a, first.a)} and ${did(b, first.b)}`;
  }
}

/** Shows the choice and the commands to run next. The CLI runs none of them. */
export function choiceText({ runs }: Pick<Comparison, "runs">, choice: Choice, page: Page): string {
  const winner = runs.find(({ id }) => id === choice.id);
  const before = choice.untagged.length === 0 ? "" : `, and no longer ${choice.untagged.join(", ")}`;
  const title = `Chosen: ${paint(page, "bold", escapeText(choice.id))}, tagged ${choice.tag}${escapeText(before)}.`;
  const others = new Map(runs.filter(({ run }) => run !== winner?.run).map((run) => [run.run, run]));
  const steps = [
    ...(winner === undefined ? [] : winnerSteps(winner, page)),
    ...[...others.values()].flatMap((run) => otherSteps(run, page)),
  ];
  const other = winner === undefined ? undefined : [...others.values()][0];
  if (other !== undefined && winner !== undefined)
    steps.push({
      what: `Take single files of ${other.run} along`,
      line: `${page.program} cherry-pick ${other.id} PATH --into ${winner.run}`,
    });
  const lines = steps.flatMap(({ what, line }) => [
    `${escapeText(what)}:`,
    `  ${paint(page, "bold", escapeText(line))}`,
  ]);
  return `${[title, ...lines].join("\n")}\n`;
}

interface Step {
  readonly what: string;
  readonly line: string;
}

function winnerSteps(run: ComparedSide, page: Page): readonly Step[] {
  switch (run.status.kind) {
    case "running":
    case "queued":
      return [{ what: "It is still at work", line: `${page.program} status ${run.run} --watch` }];
    case "waiting":
    case "crashed":
    case "paused":
      return [{ what: "Continue it", line: `${page.program} resume ${run.run}` }];
    default:
      return mergeSteps(run);
  }
}

function mergeSteps({ pullRequest, branch, worktree, uncommitted }: ComparedSide): readonly Step[] {
  if (pullRequest !== null) return [{ what: `Merge pull request #${pullRequest.number}`, line: pullRequest.url }];
  if (branch === null) return [];
  const commit =
    uncommitted === 0 || worktree === null
      ? []
      : [
          {
            what: `Commit ${countText(uncommitted, "file")} that no commit has`,
            line: `cd ${quoteWord(worktree)} && git add -A && git commit`,
          },
        ];
  return [...commit, { what: "Merge its branch, in your own worktree", line: `git merge ${quoteWord(branch)}` }];
}

function otherSteps({ run, status, pullRequest, worktree, branch }: ComparedSide, page: Page): readonly Step[] {
  return [
    ...(isHeld(status) ? [{ what: `Stop ${run}`, line: `${page.program} stop ${run}` }] : []),
    ...(pullRequest === null
      ? []
      : [{ what: `Close pull request #${pullRequest.number} of ${run}`, line: pullRequest.url }]),
    // A run that was started in the user's own worktree must not have it removed.
    ...(worktree === null || branch !== `holdfast/${run}`
      ? []
      : [
          {
            what: `Remove the worktree of ${run} (its branch stays)`,
            line: `git worktree remove ${quoteWord(worktree)}`,
          },
        ]),
  ];
}

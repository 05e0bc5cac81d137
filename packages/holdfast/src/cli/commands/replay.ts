/** The `replay` command: replays a recorded run from its record and compares the results. */
import { type Divergence, cutValues, placeText } from "@holdfast/core/recording";
import type { ReplayReport } from "@holdfast/core/replay";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { type Page, paint } from "../output/page.ts";
import { countText } from "../output/quantities.ts";
import { escapeText, fieldsText } from "../output/text.ts";
import { parseCount } from "../parse-arguments.ts";
import { workflowFile } from "../run-consent.ts";

export const spec = {
  name: "replay",
  summary: "check that a recorded run replays identically",
  details: [
    "Verifies the record first. Then it executes the run's workflow from the first checkpoint in a temporary worktree, with the recorded results of agents, commands and the forge: it starts no agent, pushes nothing and does not change the run. It compares each checkpoint with the recorded one (position, files, values, conversation, settings) and reports the first divergence with both values.",
    "Needs a run that was started with --mode logged, seeded or strict. Exit status: 0 identical, 8 diverged, 6 the record is damaged, 3 the run was not recorded.",
  ],
  operands: [{ name: "RUN", about: "the run", required: false, completes: "run" }],
  consent: "reads",
  flags: {
    to: { type: "text", value: "N", about: "stop after checkpoint N" },
    workflow: {
      type: "text",
      value: "FILE",
      about: "the file of your own workflow",
      completes: "file",
    },
  },
  examples: [
    { line: "holdfast replay issue-42", about: "replay the whole run" },
    { line: "holdfast replay issue-42 --to 17", about: "replay up to checkpoint 17" },
    { line: "holdfast replay issue-42 --json", about: "the first divergence, for a script" },
  ],
  reads: true,
  json: '{"run", "verdict": "identical" | "diverged" | "damaged", "divergence": {"where", "what", "field", "expected", "actual"} or null, "problems": [...], "from", "to", "iteration", "steps", "agents", "compared", "filled", "outcome"}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const address = input.operand(0);
  const to = input.text("to");
  const sequence = to === undefined ? {} : { to: parseCount("to", to) };
  const holdfast = await shell.open({ create: false });
  const { id } = await holdfast.resolveRun(address);
  const workflow = await workflowFile(shell, holdfast, { run: id, named: input.text("workflow") });
  const report = await holdfast.work.replay({ run: id, ...sequence, ...workflow, signal: shell.signal });
  shell.print({ json: () => report, text: (page) => replayText(report, page) });
  return EXITS[report.verdict];
}

const EXITS: Readonly<Record<ReplayReport["verdict"], Exit>> = {
  identical: "done",
  diverged: "diverged",
  damaged: "corrupt",
};

export function replayText(report: ReplayReport, page: Page): string {
  const run = escapeText(report.run);
  switch (report.verdict) {
    case "damaged":
      return (
        `${paint(page, "red", "Damaged")}: the record of ${run} was changed after it was written. Nothing was replayed.\n` +
        report.problems
          .slice(0, MOST)
          .map(({ code, entry, sequence, what }) => `  ${prefixOf(entry, sequence)}${code}: ${escapeText(what)}\n`)
          .join("") +
        (report.problems.length > MOST ? `  and ${report.problems.length - MOST} more: holdfast verify ${run}\n` : "")
      );
    case "diverged":
      return `${paint(page, "yellow", "Diverged")}: ${run} diverged from its record.\n${
        report.divergence === null ? "" : divergenceFields(report.divergence, page)
      }${doneText(report, page)}`;
    case "identical":
      return `${paint(page, "green", "Identical")}: the replay of ${run} matches its record.\n${doneText(report, page)}`;
  }
}

const MOST = 10;

function doneText(report: ReplayReport, page: Page): string {
  const { from, to, compared, filled, steps, agents, iteration, outcome } = report;
  const others = filled === 0 ? "" : `, ${filled} from outside copied from the record`;
  return fieldsText(
    [
      ["checkpoints", `${to === null ? "none" : `${from} to ${to}`}: ${compared} replayed and identical${others}`],
      ["steps", `${steps} answered from the record`],
      ["agents", `none started; ${countText(agents, "call")} answered from the record`],
      ["ends", `${outcome}${iteration === 0 ? "" : `, iteration ${iteration}`}`],
    ],
    page,
  );
}

function divergenceFields({ where, what, field, expected, actual }: Divergence, page: Page): string {
  const [was, is] = cutValues(expected, actual, Number.isFinite(page.width) ? Math.max(40, page.width - 16) : 2000);
  return fieldsText(
    [
      ["where", placeText(where)],
      ["what", `${WORDS[what]}: ${field}`],
      ["recorded", was],
      ["now", is],
    ],
    page,
  );
}

const WORDS: Readonly<Record<Divergence["what"], string>> = {
  call: "the prompt of the agent",
  checkpoint: "the checkpoint",
  event: "the event that the workflow records",
  step: "a step that is not in the record",
  missing: "a recorded step that is missing",
  lookup: "a request to the forge",
  end: "the result of the run",
  environment: "the environment of agents",
  files: "the worktree",
};

function prefixOf(entry: number | null, sequence: number | null): string {
  if (sequence !== null) return `checkpoint ${sequence}: `;
  return entry === null ? "" : `entry ${entry}: `;
}

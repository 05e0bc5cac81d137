/** The `find` command: leads from a commit or a pull request back to its run. */
import { HoldfastError } from "@holdfast/platform/error";
import { type FoundBy, type FoundRun, type FoundRuns, parseFindTarget } from "../../find-run.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { type Page, paint } from "../output/page.ts";
import { workText } from "../output/run-text.ts";
import { escapeText, fieldsText } from "../output/text.ts";
import { runJson } from "../run-json.ts";

export const spec = {
  name: "find",
  summary: "find the run that made a commit or a pull request",
  details: [
    "Commits that Holdfast makes end with a line `Holdfast-Run: RUN`, and a run keeps the commits that its agent made. A line in a message can be written by anyone: `find` says when only the commit names the run.",
  ],
  operands: [
    {
      name: "COMMIT|PR",
      about: "a commit, branch or tag; #12 or the address of a pull request",
      required: true,
      completes: "nothing",
    },
  ],
  consent: "reads",
  flags: {},
  examples: [
    { line: "holdfast find HEAD", about: "which run made this commit, and how that is known" },
    { line: 'holdfast find "#12"', about: "which run opened pull request 12" },
    { line: "holdfast find 3f2a91c --json | jq -r .runs[0].id", about: "the id of the run, for another command" },
  ],
  reads: true,
  json: '{"target": {"kind": "commit" or "pull_request", ...}, "commit": "id" or null, "runs": [{"id", "run": {...} or null, "by": ["receipt", "journal", "pin", "trailer"], "confirmed"}]}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const typed = input.operand(0) ?? "";
  const holdfast = await shell.open({ create: false });
  const found = await holdfast.find(parseFindTarget(typed));
  if (!found.runs.some((one) => one.run !== null)) throw notFound(typed, found);
  const statuses = new Map(
    await Promise.all(
      found.runs
        .flatMap((one) => (one.run === null ? [] : [one.id]))
        .map(async (id) => [id, await holdfast.runWithStatus(id)] as const),
    ),
  );
  shell.print({
    json: () => ({
      ...found,
      runs: found.runs.map((one) => {
        const shown = statuses.get(one.id);
        return { ...one, run: shown === undefined ? null : runJson(shown) };
      }),
    }),
    text: (page) => found.runs.map((one) => foundText(one, page)).join("\n"),
  });
  return "done";
}

const HOW: Readonly<Record<FoundBy, string>> = {
  receipt: "it published this",
  journal: "a step recorded it",
  pin: "it keeps this commit",
  trailer: "the commit names it",
};

function foundText({ id, run, by, confirmed }: FoundRun, page: Page): string {
  const doubt = run === null ? "not in this store" : confirmed ? null : "named by the commit, not confirmed by the run";
  const title = `${paint(page, "bold", escapeText(id))}${doubt === null ? "" : `  ${paint(page, "yellow", doubt)}`}\n`;
  if (run === null) return title;
  return (
    title +
    fieldsText(
      [
        ["work", workText(run.work)],
        ["workflow", run.workflow],
        ["known by", by.map((one) => HOW[one]).join(", ")],
        ["see", `${page.program} show ${id}`],
      ],
      page,
    )
  );
}

function notFound(typed: string, { target, runs }: FoundRuns): HoldfastError {
  const names = runs.map(({ id }) => id).join(", ");
  const what = target.kind === "commit" ? `commit ${typed}` : `pull request #${target.number}`;
  return new HoldfastError({
    code: "RUN_NOT_FOUND",
    message:
      names === "" ? `No run of this store made ${what}` : `The ${what} names ${names}, which this store does not have`,
    hint:
      names === ""
        ? "`holdfast list` shows the runs of this store."
        : "Look on the machine that made it: each repository has its own store.",
    data: { target, runs: runs.map(({ id }) => id) },
  });
}

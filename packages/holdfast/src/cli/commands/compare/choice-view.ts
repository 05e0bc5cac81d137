import type { ComparedSide, Comparison } from "../../../app.ts";
import { countText } from "../../output/count-text.ts";
import { escapeText } from "../../output/escape-text.ts";
import { paint } from "../../output/page.ts";
import type { Page } from "../../output/page.ts";
import type { Choice } from "./choose.ts";

/** What was chosen, and what a person does next: nothing of it is done for them. */
export function choiceText({ runs }: Pick<Comparison, "runs">, choice: Choice, page: Page): string {
  const winner = runs.find(({ id }) => id === choice.id);
  const before = choice.untagged.length === 0 ? "" : `, and no longer ${choice.untagged.join(", ")}`;
  const title = `Chosen: ${paint(page, "bold", escapeText(choice.id))}, tagged ${choice.tag}${escapeText(before)}.`;
  const others = new Map(runs.filter(({ run }) => run !== winner?.run).map((run) => [run.run, run]));
  const steps = [
    ...(winner === undefined ? [] : winnerSteps(winner, page)),
    ...[...others.values()].flatMap((run) => otherSteps(run, page)),
  ];
  const graft = winner === undefined ? undefined : [...others.values()][0];
  if (graft !== undefined && winner !== undefined)
    steps.push({
      what: `Take single files of ${graft.run} along`,
      line: `${page.program} graft ${graft.id} PATH --into ${winner.run}`,
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
  switch (run.condition.kind) {
    case "running":
    case "held":
      return [{ what: "It is still at work", line: `${page.program} status ${run.run} --watch` }];
    case "parked":
    case "crashed":
    case "stopped":
      return [{ what: "Go on with it", line: `${page.program} resume ${run.run}` }];
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
            line: `cd ${quoted(worktree)} && git add -A && git commit`,
          },
        ];
  return [...commit, { what: "Merge its branch, in your own worktree", line: `git merge ${quoted(branch)}` }];
}

function otherSteps({ run, condition, pullRequest, worktree, branch }: ComparedSide, page: Page): readonly Step[] {
  return [
    ...(condition.kind === "running" ? [{ what: `Stop ${run}`, line: `${page.program} stop ${run}` }] : []),
    ...(pullRequest === null
      ? []
      : [{ what: `Close pull request #${pullRequest.number} of ${run}`, line: pullRequest.url }]),
    // A run that was begun in somebody's own worktree must not have it taken away.
    ...(worktree === null || branch !== `holdfast/${run}`
      ? []
      : [
          {
            what: `Remove the worktree of ${run} (its branch stays)`,
            line: `git worktree remove ${quoted(worktree)}`,
          },
        ]),
  ];
}

/** As a shell takes it. */
function quoted(text: string): string {
  return /^[\w.,:=@/+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** What each answer to a question of the built-in workflows does, in one sentence. Pure. */
import { isStop } from "./plan-text.ts";

/** By the name of the question. The first entry that matches is used. */
const MEANINGS: readonly (readonly [name: RegExp, Readonly<Record<string, string>>])[] = [
  [
    /^base-gate-fails-\d+$/,
    {
      continue: "Gives the failure to the agent and continues, although the gate fails without any change.",
      again: "Runs the gate again. Fix the cause first.",
    },
  ],
  [
    /^unknown-(?:branch|commits)$/,
    {
      theirs: "Builds on the commits that the remote branch has.",
      ours: "Replaces the commits that the remote branch has with those of this run.",
      replace: "Replaces the commits that the remote branch has with those of this run.",
    },
  ],
  [
    /^unreadable-review$/,
    {
      skip: "Continues without a review.",
      rework: "Gives the reply to the implementer as feedback for another iteration.",
    },
  ],
  [/^work-in-base$/, { accept: "Accepts that as the result, and the run ends without a pull request." }],
  [/^empty-change$/, { again: "Calls the agent again, which costs another iteration." }],
  [
    /^stuck$/,
    {
      continue: "Continues from the present files with the next iteration.",
      rollback: "Puts the files of the best iteration back and continues from there.",
    },
  ],
  [/^criterion-cannot-run$/, { continue: "Continues, because the work will add what the criterion needs." }],
  [
    /\/denied$/,
    {
      allow: "Allows the agent every tool from now on, as --yolo does.",
      continue: "Continues without the denied action.",
    },
  ],
  [/^consent:publish$/, { publish: "The run may push and open a pull request from now on." }],
  [/^approval:/, { approve: "The run performs this effect and continues." }],
];

/** Answers that mean the same in every question. */
const USUAL: Readonly<Record<string, string>> = {
  again: "Tries it again.",
  continue: "Continues without it.",
  push: "Pushes all the same.",
  approve: "Allows it, and the run continues.",
  reject: "Refuses it, and the run continues without it.",
};

export function answerMeaning(question: string, answer: string): string {
  if (isStop(answer)) return "The run stops here; its work is saved.";
  const own = MEANINGS.find(([name]) => name.test(question))?.[1] ?? USUAL;
  return (Object.hasOwn(own, answer) ? own[answer] : undefined) ?? "The answer is recorded, and the run continues.";
}

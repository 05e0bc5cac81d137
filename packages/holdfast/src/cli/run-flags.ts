/** The specification of `run` with all its flags, and the checks which flags a workflow accepts. */
import { AGENT_LIST } from "@holdfast/core/agent";
import { EXECUTION_MODES } from "@holdfast/core/checkpoint";
import { usageError } from "@holdfast/platform/error";
import type { CommandSpec } from "./command.ts";

/** Flags that only some workflows have. Other workflows must reject them instead of ignoring them. */
const CRUNCH = ["target", "max-parallel", "model"];
const RALPH = ["until", "no-first-check", "max", "attempts", "on-stuck", "skill", "flow", "pr"];
const BOTH = ["type"];
const IMPL = ["plan"];

export const runSpec = {
  name: "run",
  summary: "turn an issue into a pull request",
  details: [
    "The run has its own worktree and branch. An agent implements the issue. Holdfast checks and reviews the result, pushes commits and opens a pull request, and repeats this within the limits. Every step is saved: after a crash, an interrupt or a rate limit, `holdfast resume` continues from the last checkpoint and repeats no side effect.",
    "The same workflow with the same issue or task text is the same run. An unfinished run is not started twice: --resume continues it. If the run has ended, its result is printed and nothing is done (exit status 0 if it is done, 1 if it failed or was aborted); --again starts a new run. So `holdfast run ISSUE --resume` can be repeated after any crash. Ctrl+C stops the agent, saves, and prints how to continue; a second Ctrl+C exits at once. --max-time limits the session: when the time is used up, the agent is stopped, a checkpoint with trigger session_end is saved, and the run waits (exit status 7) until `holdfast resume`.",
    "--workflow crunch takes the issue through the phases enrich, ready, implementing, e2e, docs and ready-to-merge. A team of agents works on each phase, and the issue's `state:` label shows it. --target stops at a phase, and `holdfast resume RUN --target PHASE` continues. See docs/crunch.md; `holdfast config --crunch` prints the team and its tasks.",
    "--workflow ralph is a loop: an agent works, the --until command checks the result, and the lessons go into the next prompt. It ends when the check succeeds, after --max iterations, or when it makes no progress; the files of the best iteration stay. It needs no issue and no forge: `--task` runs on its own branch. An issue ends in a pull request, a task only with --pr. See docs/ralph.md.",
    `Agents are named as provider:model, or by the provider alone for its default model. The providers: ${AGENT_LIST}; \`holdfast agents\` shows which are ready, \`holdfast setup\` writes one into the config.`,
    "Before anything is created, Holdfast looks for mistakes, such as a missing login or a program that does not exist, and shows all of them at once; docs/errors.md lists them. Without a configured agent, the only one that is ready is used.",
    "Flags override holdfast.config.yaml; see `holdfast config`. The file also has the rare settings that have no flag: docs/config.md. Exit status: 0 done, 1 failed, 4 needs a decision, 5 another process runs it, 7 waiting.",
  ],
  operands: [{ name: "ISSUE", about: "number of the issue", required: false, completes: "nothing" }],
  consent: "works",
  flags: {
    task: {
      type: "text",
      short: "t",
      value: "TEXT",
      about: "work on this text; it is filed as an issue first (not with ralph)",
    },
    plan: {
      type: "text",
      value: "FILE",
      about: "a plan for the change, part of every implementation prompt (impl)",
      completes: "file",
    },
    workflow: {
      type: "text",
      value: "NAME",
      about: "impl (default), crunch, ralph, or a file that exports a workflow",
      completes: "file",
    },
    agent: {
      type: "text",
      short: "a",
      value: "MODEL",
      about: "the agent for every role, such as claude:opus; replaces every agent that a file names",
    },
    "impl-model": { type: "text", value: "MODEL", about: "the agent for implementing" },
    "review-model": { type: "text", value: "MODEL", about: "the agent for reviewing" },
    "max-iterations": { type: "text", value: "N", about: "implementation attempts before the run fails (10)" },
    "max-reviews": { type: "text", value: "N", about: "reviews before the run continues without a passed one (8)" },
    target: { type: "text", value: "PHASE", about: "the phase to stop at (ready-to-merge)" },
    type: {
      type: "text",
      value: "TYPE",
      about:
        "crunch: bug or feature (default by the labels); ralph: ralph_loop (default), agent_task, skill_execution or flow_command",
    },
    "max-parallel": { type: "text", value: "N", about: "agents that run at once (3)" },
    model: {
      type: "text",
      value: "WHO=MODEL",
      about: "the model of a role or an agent; repeatable",
    },
    until: {
      type: "text",
      value: "CMD",
      about: "the shell command that succeeds when the work is done; repeatable",
    },
    "no-first-check": { type: "boolean", about: "do not run that command before the first iteration" },
    max: { type: "text", value: "N", about: "iterations at most (200)" },
    attempts: {
      type: "text",
      value: "N",
      about: "attempts of each step of a flow, a skill or a single task (3)",
    },
    "on-stuck": {
      type: "text",
      value: "WHAT",
      about: "what to do without progress: stop (default), ask, or rollback to the best iteration once",
      choices: ["stop", "ask", "rollback"],
    },
    skill: {
      type: "text",
      value: "FILE",
      about: "run this skill, with --task as its arguments",
      completes: "file",
    },
    flow: {
      type: "text",
      value: "FILE",
      about: "run these steps in order, or this command",
      completes: "file",
    },
    pr: { type: "boolean", about: "open a pull request for a task, too" },
    review: { type: "boolean", about: "review each implementation" },
    "no-review": { type: "boolean", about: "skip the reviews" },
    simplify: { type: "boolean", about: "add a step that simplifies the result" },
    gate: { type: "text", value: "CMD", about: 'a shell command that must succeed, such as "npm test"' },
    base: { type: "text", value: "BRANCH", about: "the branch to start from and to merge into" },
    draft: { type: "boolean", about: "open the pull request as a draft" },
    "wait-for-ci": { type: "boolean", about: "wait for the pull request's checks and fix failures" },
    "ignore-reviews": { type: "boolean", about: "while waiting, ignore change requests of reviewers" },
    yolo: { type: "boolean", about: "the agent may use every tool without asking" },
    "no-yolo": { type: "boolean", about: "deny that, whatever the config says" },
    "max-tokens": { type: "text", value: "N", about: "wait when the run has used this many tokens" },
    "max-cost": { type: "text", value: "USD", about: "wait when the run has cost this much" },
    "max-time": { type: "text", value: "TIME", about: "stop and save when this session has taken this long (2h)" },
    "max-total-time": { type: "text", value: "TIME", about: "wait when all sessions together have taken this long" },
    mode: {
      type: "text",
      value: "MODE",
      about: "recording mode: default, logged, seeded or strict",
      choices: EXECUTION_MODES,
    },
    seed: { type: "text", value: "N", about: "the seed for agents that accept one (mode seeded)" },
    priority: {
      type: "text",
      value: "P",
      about: "priority in the queue of loops: low, normal (default), high, or a number",
    },
    "max-loops": { type: "text", value: "N", about: "loops that run at once in this repository (4)" },
    force: { type: "boolean", about: "run although the loop concurrency limit is reached" },
    detach: { type: "boolean", about: "run in the background, also after this terminal is closed" },
    resume: { type: "boolean", about: "continue the unfinished run of this issue, if there is one" },
    wait: {
      type: "boolean",
      about: "wait for a known time (rate limit) or for a free loop slot, then continue",
    },
    again: {
      type: "boolean",
      about: "start a new run although the run of this work has ended, or the issue is closed",
    },
    "dry-run": {
      type: "boolean",
      about: "look for mistakes and show what would be done; it fetches, and changes nothing else",
    },
    backend: { type: "text", value: "MODEL", about: "", instead: "--impl-model" },
    "max-iter": { type: "text", value: "N", about: "", instead: "--max-iterations" },
    "enable-review": { type: "boolean", about: "", instead: "--review" },
    "enable-simp": { type: "boolean", about: "", instead: "--simplify" },
    issue: { type: "text", short: "i", value: "N", about: "", instead: "the number alone" },
    input: { type: "text", value: "TEXT", about: "", instead: "--task" },
  },
  configFlags: {
    "max-pr-attempts": "impl.limits.prAttempts",
    "max-rebases": "impl.limits.rebases",
    "max-parse-failures": "impl.limits.parseFailures",
    "max-review-failures": "impl.limits.reviewFailures",
    "max-stuck": "impl.limits.stuck",
    "max-simplifications": "impl.limits.simplifications",
    memory: "ralph.memory",
    "memory-policy": "ralph.memoryPolicy",
    "until-timeout": "ralph.untilTimeout",
  },
  flagGroups: {
    "What to do": ["task", "plan", "workflow", "base", "resume", "again", "dry-run"],
    Agents: ["agent", "impl-model", "review-model", "yolo", "no-yolo"],
    Limits: ["max-iterations", "max-reviews", "max-tokens", "max-cost", "max-time", "max-total-time"],
    "Checks and pull request": ["gate", "review", "no-review", "simplify", "draft", "wait-for-ci", "ignore-reviews"],
    "Waiting and background": ["wait", "priority", "max-loops", "force", "detach"],
    Recording: ["mode", "seed"],
    "The workflow crunch": CRUNCH,
    "The workflow ralph": RALPH,
    "The workflows crunch and ralph": BOTH,
  },
  examples: [
    { line: "holdfast run 42 --dry-run", about: "show branch, worktree, stages, limits and agent" },
    {
      line: 'holdfast run 42 --agent claude --yolo --gate "npm test"',
      about: "turn issue 42 into a pull request whose tests pass",
    },
    {
      line: 'holdfast run --workflow ralph --task "Fix the tests" --until "npm test"',
      about: "iterate until the tests pass, without an issue",
    },
  ],
  windsDown: true,
  waitsForSpace: true,
  json: 'One line for each event {"run", "at", "kind", ...}, then {"kind": "result", "run": {...} as in `status`, "result": {"kind": "done" | "failed" | "aborted" | "waiting" | "paused" | "interrupted" | "ask", ...}, "earlier": true if the run had ended before}; with --dry-run {"kind": "plan", "plan": {...}}, where "filesIssue": true means that N in the id stands for the number of an issue that the run files first; with --detach {"kind": "detached", "run": "id", "pid", "log": "path", "queued"}.',
} as const satisfies CommandSpec;

type RunFlags = (typeof runSpec)["flags"];

/** Flags of impl that ralph does not have, and what to use instead. */
const NOT_OF_RALPH: Partial<Readonly<Record<keyof RunFlags, string>>> = {
  gate: "Its check is --until.",
  "impl-model": "Its agent is --agent.",
  "review-model": "It has no reviews: its check is --until.",
  "max-reviews": "It has no reviews: its limit is --max.",
  review: "It has no reviews: its check is --until.",
  "no-review": "It has no reviews: its check is --until.",
  simplify: "Write it into the task.",
  "wait-for-ci": "It ends with the pull request.",
  "ignore-reviews": "It ends with the pull request.",
};

/** Whether a flag was typed, with any value. */
interface Typed {
  on(flag: string): boolean;
}

export function rejectOtherWorkflowFlags(input: Typed, workflow: string): void {
  const owned: readonly (readonly [flags: readonly string[], owners: readonly string[]])[] = [
    [CRUNCH, ["crunch"]],
    [RALPH, ["ralph"]],
    [BOTH, ["crunch", "ralph"]],
    [IMPL, ["impl"]],
  ];
  for (const [flags, owners] of owned) {
    const flag = flags.find((name) => input.on(name));
    if (flag === undefined || owners.includes(workflow)) continue;
    throw usageError(
      `--${flag} is a flag of the ${owners.join(" and ")} workflow, and this run uses ${workflow}`,
      `Leave it out, or use ${owners.map((owner) => `\`--workflow ${owner}\``).join(" or ")}.`,
    );
  }
  if (workflow !== "ralph") return;
  for (const [flag, instead] of Object.entries(NOT_OF_RALPH)) {
    if (!input.on(flag)) continue;
    throw usageError(`--${flag} is not a flag of the ralph workflow`, `${instead} Leave --${flag} out.`);
  }
}

/** A flag overrides the file in both directions. */
export function readYolo(input: Typed, fallback: boolean): boolean {
  const [yes, no] = [input.on("yolo"), input.on("no-yolo")];
  if (yes && no) throw usageError("Both --yolo and --no-yolo were given", "Leave one of them out.");
  return yes || (!no && fallback);
}

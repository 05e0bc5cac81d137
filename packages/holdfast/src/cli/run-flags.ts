/** The specification of `run` with all its flags, and the checks which flags a workflow accepts. */
import { AGENT_LIST } from "@holdfast/core/agent";
import { EXECUTION_MODES } from "@holdfast/core/checkpoint";
import { HoldfastError } from "@holdfast/platform/error";
import type { CommandSpec } from "./command.ts";

export const runSpec = {
  name: "run",
  summary: "carry an issue to a pull request",
  details: [
    "Works in a worktree and on a branch of its own. An agent implements, what it wrote is checked and reviewed, commits are pushed and a pull request is opened, each as often as the limits allow. Everything is saved on the way: killed, interrupted or out of quota, `holdfast resume` goes on where it was and does nothing twice.",
    "The same workflow and issue, or task text, is the same run. An unfinished run is never started a second time: --resume continues it. When the run has ended, its outcome is shown and nothing is done: exit status 0 if it is done, 1 if it failed or was aborted; --again starts a new run. So `holdfast run ISSUE --resume` can be repeated after any crash. Ctrl+C stops the agent, saves, and prints how to continue; a second Ctrl+C leaves at once. --max-time does the same by the clock: when the session has taken as long, the agent is stopped, a checkpoint with trigger session_end is saved and the run waits (exit status 7); `holdfast resume` continues it, with a new time of its own or none.",
    "--workflow crunch carries the issue through the phases enrich, ready, implementing, e2e, docs and ready-to-merge, each with a team of agents on a task graph, and says so by the issue's `state:` label; --target stops at one of them, and `holdfast resume RUN --target PHASE` goes on. docs/crunch.md explains it; `holdfast config --crunch` prints who is in the team and what it does.",
    "--workflow ralph goes round: an agent works, the command of --until says whether it is done, what was learnt goes into the next prompt, until it is done, --max rounds have been, or nothing moves any more; then the files of the best round are what stays. It needs no issue and no forge: `--task` is a loop on a branch of its own. An issue ends in a pull request, a task where --pr asks for it. docs/ralph.md explains it.",
    `Agents are named as provider:model, or by the provider alone for its default model. The providers: ${AGENT_LIST}; \`holdfast agents\` shows which are ready, \`holdfast setup\` puts one into the config.`,
    "Flags override holdfast.config.yaml; see `holdfast config`. Exit status: 0 done, 1 given up (with the reason), 4 needs a decision, 5 somebody else is at it, 7 parked.",
  ],
  operands: [{ name: "ISSUE", about: "number of the issue", required: false, completes: "nothing" }],
  consent: "works",
  paths: false,
  flags: {
    task: {
      type: "text",
      short: "t",
      value: "TEXT",
      about: "work on this text, which is filed as an issue first (not by ralph)",
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
    "impl-model": { type: "text", value: "MODEL", about: "another one for implementing" },
    "review-model": { type: "text", value: "MODEL", about: "another one for reviewing" },
    "max-iterations": { type: "text", value: "N", about: "implementation rounds before giving up (10)" },
    "max-reviews": { type: "text", value: "N", about: "reviews before going on without one that passed (8)" },
    target: { type: "text", value: "PHASE", about: "crunch: the phase to stop at (ready-to-merge)" },
    type: {
      type: "text",
      value: "TYPE",
      about:
        "crunch: bug or feature (as the labels say); ralph: ralph_loop (default), agent_task, skill_execution or flow_command",
    },
    "max-parallel": { type: "text", value: "N", about: "crunch: agents at work at once (3)" },
    model: {
      type: "text",
      value: "WHO=MODEL",
      about: "crunch: another one for a role or an agent; may be given again",
    },
    until: {
      type: "text",
      value: "CMD",
      about: "ralph: the shell command that succeeds when it is done; may be given again",
    },
    "until-timeout": { type: "text", value: "TIME", about: "ralph: how long that command may take (10m)" },
    "no-first-check": { type: "boolean", about: "ralph: do not run it before the first round" },
    max: { type: "text", value: "N", about: "ralph: rounds before it stops at its limit (200)" },
    attempts: { type: "text", value: "N", about: "ralph: tries of each unit of a flow, a skill or a single task (3)" },
    memory: { type: "text", value: "N", about: "ralph: how many reflections go into the next prompt, 1 to 10 (3)" },
    "memory-policy": {
      type: "text",
      value: "POLICY",
      about: "ralph: which reflection makes room (fifo)",
      choices: ["fifo", "recency", "relevance_weighted"],
    },
    "on-stuck": {
      type: "text",
      value: "WHAT",
      about: "ralph: when nothing moves any more: stop (default), ask, or rollback to the best round once",
      choices: ["stop", "ask", "rollback"],
    },
    skill: {
      type: "text",
      value: "FILE",
      about: "ralph: carry out this skill, with --task as its arguments",
      completes: "file",
    },
    flow: {
      type: "text",
      value: "FILE",
      about: "ralph: carry out these steps in order, or this command",
      completes: "file",
    },
    pr: { type: "boolean", about: "ralph: open a pull request for a task too" },
    review: { type: "boolean", about: "review each implementation" },
    "no-review": { type: "boolean", about: "go straight to the pull request" },
    simplify: { type: "boolean", about: "add a round that makes the result simpler" },
    gate: { type: "text", value: "CMD", about: 'a shell command that must succeed, such as "npm test"' },
    base: { type: "text", value: "BRANCH", about: "start from it and merge into it" },
    draft: { type: "boolean", about: "open the pull request as a draft" },
    "wait-for-ci": { type: "boolean", about: "wait for the checks and mend what fails" },
    "ignore-reviews": { type: "boolean", about: "while waiting, do not mend what people ask for in reviews" },
    yolo: { type: "boolean", about: "the agent may act without asking" },
    "no-yolo": { type: "boolean", about: "the agent may not, whatever the config says" },
    "max-tokens": { type: "text", value: "N", about: "let the run wait when it has used this many" },
    "max-cost": { type: "text", value: "USD", about: "let the run wait when it has cost this much" },
    "max-time": {
      type: "text",
      value: "TIME",
      about: "stop, save and wait when this session has taken this long (2h)",
    },
    "max-total-time": { type: "text", value: "TIME", about: "let the run wait when it has worked this long in all" },
    mode: {
      type: "text",
      value: "MODE",
      about: "what is recorded: default, logged, seeded or strict",
      choices: EXECUTION_MODES,
    },
    seed: { type: "text", value: "N", about: "for agents that take one (mode seeded)" },
    priority: {
      type: "text",
      value: "P",
      about: "of a loop: low, normal (default), high, or a number: who waits less",
    },
    "max-loops": { type: "text", value: "N", about: "loops at work at once in this repository (4)" },
    force: { type: "boolean", about: "when as many loops as may be are at work: work all the same" },
    detach: { type: "boolean", about: "work in the background, whatever becomes of this terminal" },
    resume: { type: "boolean", about: "go on with the run of this issue, if there is one" },
    wait: {
      type: "boolean",
      about: "whenever it waits until a time, or as many loops as may be are at work: wait, then go on",
    },
    again: { type: "boolean", about: "start a new run although an earlier one of the same work has ended" },
    "dry-run": { type: "boolean", about: "say what would be done, and do nothing" },
    backend: { type: "text", value: "MODEL", about: "", instead: "--impl-model" },
    "max-iter": { type: "text", value: "N", about: "", instead: "--max-iterations" },
    "enable-review": { type: "boolean", about: "", instead: "--review" },
    "enable-simp": { type: "boolean", about: "", instead: "--simplify" },
    issue: { type: "text", short: "i", value: "N", about: "", instead: "the number alone" },
    input: { type: "text", value: "TEXT", about: "", instead: "--task" },
  },
  examples: [
    { line: "holdfast run 42 --dry-run", about: "branch, worktree, stages, limits and agent, and nothing done" },
    {
      line: 'holdfast run 42 --agent claude --yolo --gate "npm test"',
      about: "from issue 42 to a pull request whose tests pass",
    },
    {
      line: 'holdfast run --task "Add a verbose mode" --max-cost 5',
      about: "from a sentence, for five dollars at most",
    },
    { line: "holdfast run 42 --mode logged", about: "record every call, for `holdfast replay`" },
    { line: "holdfast run 42 --resume", about: "go on with it, or begin" },
    { line: "holdfast run 42 --workflow crunch --target ready", about: "a team writes down what issue 42 needs" },
    {
      line: 'holdfast run --workflow ralph --task "Fix the tests" --until "npm test"',
      about: "round after round until they pass, without an issue",
    },
  ],
  windsDown: true,
  waitsForSpace: true,
  json: 'One line for each event {"run", "at", "kind", ...}, then {"kind": "result", "run": {...} as in `status`, "result": {"kind": "done" | "failed" | "aborted" | "waiting" | "paused" | "interrupted" | "ask", ...}, "earlier": true if the run had ended before}; with --dry-run {"plan": {...}}; with --detach {"run", "pid", "log": "path", "queued"}.',
} as const satisfies CommandSpec;

type RunFlags = (typeof runSpec)["flags"];

/** Flags that only some workflows have. Other workflows must reject them instead of ignoring them. */
const ONLY: Partial<Readonly<Record<keyof RunFlags, readonly string[]>>> = {
  target: ["crunch"],
  type: ["crunch", "ralph"],
  "max-parallel": ["crunch"],
  model: ["crunch"],
  until: ["ralph"],
  "until-timeout": ["ralph"],
  "no-first-check": ["ralph"],
  max: ["ralph"],
  attempts: ["ralph"],
  memory: ["ralph"],
  "memory-policy": ["ralph"],
  "on-stuck": ["ralph"],
  skill: ["ralph"],
  flow: ["ralph"],
  pr: ["ralph"],
};

/** Flags of impl that ralph does not have, and what to use instead. */
const NOT_OF_RALPH: Partial<Readonly<Record<keyof RunFlags, string>>> = {
  gate: "The command that says when it is done is --until.",
  "impl-model": "Its agent is --agent.",
  "review-model": "It has no reviews: its criterion is --until.",
  "max-reviews": "It has no reviews: its limit is --max.",
  review: "It has no reviews: its criterion is --until.",
  "no-review": "It has no reviews: its criterion is --until.",
  simplify: "Say it in the task.",
  "wait-for-ci": "It ends with the pull request.",
  "ignore-reviews": "It ends with the pull request.",
};

/** Whether a flag was typed, with any value. */
interface Typed {
  on(flag: string): boolean;
}

export function rejectOtherWorkflowFlags(input: Typed, workflow: string): void {
  for (const [flag, owners] of Object.entries(ONLY)) {
    if (owners.includes(workflow) || !input.on(flag)) continue;
    throw new HoldfastError({
      code: "USAGE",
      message: `--${flag} means something to the ${owners.join(" and ")} workflow only, and this is ${workflow}`,
      hint: `Leave it out, or say ${owners.map((owner) => `\`--workflow ${owner}\``).join(" or ")}.`,
    });
  }
  if (workflow !== "ralph") return;
  for (const [flag, instead] of Object.entries(NOT_OF_RALPH)) {
    if (!input.on(flag)) continue;
    throw new HoldfastError({
      code: "USAGE",
      message: `--${flag} means nothing to the ralph workflow`,
      hint: `${instead} Leave --${flag} out.`,
    });
  }
}

/** A flag overrides the file in both directions. */
export function readYolo(input: Typed, fallback: boolean): boolean {
  const [yes, no] = [input.on("yolo"), input.on("no-yolo")];
  if (yes && no)
    throw new HoldfastError({
      code: "USAGE",
      message: "Both --yolo and --no-yolo were given",
      hint: "Leave one of them out.",
    });
  return yes || (!no && fallback);
}

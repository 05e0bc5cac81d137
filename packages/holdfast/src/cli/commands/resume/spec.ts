import { FINDING_KINDS } from "../../../core/resume/finding.ts";
import { AGENT_LIST } from "../../../core/agent/agent-names.ts";
import type { CommandSpec } from "../../command.ts";

export const resumeSpec = {
  name: "resume",
  summary: "go on with a run that was stopped, parked or killed",
  details: [
    "Looks first at what changed meanwhile: the issue's text, the base, the branch, the pull request, the files. What needs no decision is told and the run goes on; what does is shown, and nothing is done until you accept it (exit status 4).",
    "A run that is done stays done (status 0); to go back to one of its older checkpoints takes --force too, or `holdfast fork RUN@7`, which leaves it as it is. One that ended fatally begins again only from a checkpoint that you choose, with --from and --force.",
    `--agent gives it to another agent, as provider or provider:model with one of ${AGENT_LIST}; \`holdfast agents\` shows which are ready.`,
    "A run that was imported (`holdfast import`) goes on at the stage its document names. One of impl-json goes on in the impl workflow, with the agent and options of the config, one of crunch-yaml in the crunch workflow; others need a workflow of yours that has the stage.",
    `Kinds of findings: ${FINDING_KINDS.join(", ")}. files_changed=put_back puts the files back to the checkpoint instead of keeping them (what is there is saved first). branch_diverged keeps the run's commits: its next push replaces the accepted ones on the remote, and both are kept under refs/holdfast/. A forge that does not answer for now is waited for (exit status 7) unless forge_unreachable is accepted.`,
  ],
  operands: [
    {
      name: "RUN",
      about: "a run id, an issue number, or RUN@7 for --from; default the newest that is not finished",
      required: false,
      completes: "run",
    },
  ],
  consent: "works",
  paths: false,
  flags: {
    accept: { type: "text", value: "KIND", about: "go on in spite of a finding of this kind; may be given again" },
    from: {
      type: "text",
      value: "ADDRESS",
      about:
        "from this checkpoint instead of the newest; `smart` chooses it by reading the failure, `pick` asks; what is there now is saved first",
      completes: "address",
    },
    "past-effects": {
      type: "boolean",
      about: "with --from smart: also behind effects that a run could not find again, which you have seen to",
    },
    force: {
      type: "boolean",
      about: "with --from: also when the run has ended; also when as many loops as may be are at work",
    },
    workflow: {
      type: "text",
      value: "FILE",
      about: "the file of a workflow of your own, when it has moved",
      completes: "file",
    },
    target: {
      type: "text",
      value: "PHASE",
      about: "of a crunch run: go on to this phase, also when it has stopped before",
    },
    max: {
      type: "text",
      value: "N",
      about: "of a loop (ralph): so many rounds in all, also when it has stopped at its limit",
    },
    agent: {
      type: "text",
      value: "PROVIDER:MODEL",
      about: "another agent than the one it had; an imported run has none yet",
    },
    "max-tokens": { type: "text", value: "N", about: "a new limit for the whole run" },
    "max-cost": { type: "text", value: "USD", about: "a new limit for the whole run" },
    "max-time": { type: "text", value: "TIME", about: "stop, save and park when this session has taken as long" },
    "max-total-time": { type: "text", value: "TIME", about: "a new limit for the whole run" },
    wait: {
      type: "boolean",
      about: "whenever it is parked until a time, or as many loops as may be are at work: wait, and go on then",
    },
    priority: {
      type: "text",
      value: "P",
      about: "of a loop: low, normal (default), high, or a number: who waits less",
    },
    "max-loops": { type: "text", value: "N", about: "loops at work at once in this repository (4)" },
    detach: { type: "boolean", about: "work in the background, whatever becomes of this terminal" },
    "dry-run": { type: "boolean", about: "only look: print what changed and what would be done" },
  },
  examples: [
    { line: "holdfast resume", about: "the newest run that is not finished" },
    { line: "holdfast resume issue-42 --dry-run", about: "what changed while it slept" },
    {
      line: "holdfast resume issue-42 --accept issue_body_changed",
      about: "the text was edited; work with the new one",
    },
    { line: "holdfast resume issue-42 --max-cost 20", about: "it was parked on its budget: give it more" },
    { line: "holdfast resume issue-42 --target docs", about: "a crunch run that stopped at ready goes on to docs" },
    {
      line: "holdfast resume ralph-fix-tests-1a2b3c4d --max 40",
      about: "a loop that stopped at its limit goes on to 40",
    },
    { line: "holdfast resume issue-42 --wait", about: "its agent's limit is used up: go on when it is given anew" },
    { line: "holdfast resume issue-42 --from smart --dry-run", about: "where would it go back to, and why?" },
    {
      line: "holdfast resume issue-42 --from issue-42@7 --force",
      about: "begin again from checkpoint 7 of a run that failed",
    },
  ],
  windsDown: true,
  waitsForSpace: true,
  json: 'One line for each event, then {"run", "outcome", "status"} as `run` does; with --dry-run {"run", "plan": {...}, "findings": [...], "notes": [texts], "verdict", "uses": {...} as in the plan of `run` or null}, with --detach {"run", "pid", "log", "queued"}. With --from smart also "rollback" as `restore --smart` has it: in that document, or on a line of its own of kind "rollback".',
} as const satisfies CommandSpec;

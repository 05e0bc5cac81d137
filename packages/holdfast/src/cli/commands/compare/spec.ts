import type { CommandSpec } from "../../command.ts";

export const compareSpec = {
  name: "compare",
  summary: "lay runs side by side, and choose one",
  details: [
    "State, code, checks, scores, metrics, effects, cost and time of two to eight runs, whatever their workflows and whether they are done, parked, dead or at work. Looks only: no lease is taken. RUN is the run as it stands, with the files of its newest checkpoint; RUN@7 is the run as it was then.",
    "Code is counted against the checkpoint that all of them were forked from, else the commit that all began from, else each against its own beginning; and each against each other. What is best in one respect is marked with *; nothing is summed up.",
    "--choose tags the checkpoint of the winner as `chosen`, so that retention keeps it, takes that tag off the others in the same write, and says what to do next. Nothing else is changed, and saying it again changes nothing.",
  ],
  operands: [
    { name: "RUN", about: "a run id, an issue number or an address", required: true, completes: "address" },
    { name: "RUN", about: "another, up to eight in all", required: true, completes: "address", many: true },
  ],
  consent: "reads",
  paths: true,
  flags: {
    patch: { type: "boolean", short: "p", about: "also the patch: between two runs, or of each against its base" },
    stat: { type: "boolean", about: "also how many lines changed in which file" },
    choose: { type: "text", value: "RUN", about: "this one of them is it", completes: "run" },
  },
  examples: [
    { line: "holdfast compare fix-login other-way", about: "a run and its fork" },
    { line: "holdfast compare fix-login@3 fix-login --patch -- src", about: "what became of it since, in one folder" },
    { line: "holdfast compare one two three --choose two", about: "keep the second, and hear what to do next" },
  ],
  reads: true,
  json: '{"runs": [{"id", "run", "sequence", "workflow", "work", "condition": {"kind", "reason"}, "stage", "iteration", "attempts", "calls", "failures", "checks": [{"name", "trail": [true], "last": {"pass", "reason"}}], "score", "scoreTrail", "scores": [{"name", "value"}], "metrics": [{"name", "value"}], "spent", "ownSpent", "time": {"wall", "work"}, "effects": [{"kind", "target", "state", "adopted", "number"}], "pullRequest", "lineage": [{"run", "sequence"}], "branch", "worktree", "tree", "uncommitted", "tags", "damage": ["..."], "base": {"kind", "name", "tree"}, "code": {"files", "added", "removed", "changed": [{"path", "status", "from", "added", "removed"}]}}], "pairs": [{"a", "b", "code", "diverged": {"common": {"run", "sequence"} or null, "beginning": "checkpoint" | "alike" | "none", "first": {"shared", "kind", "a", "b"} or null}}], "best": [{"dimension", "ids"}], "diffs": [{"from", "to", "text"}], "choice": null or {"id", "tag", "untagged": ["RUN@n"]}}. "spent" counts what came before a fork too, "ownSpent" only what came after; times are milliseconds; "code" is null where files are missing.',
} as const satisfies CommandSpec;

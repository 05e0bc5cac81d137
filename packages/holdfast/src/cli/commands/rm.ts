/** The `rm` command: removes whole runs, or single checkpoints. */
import type { RetentionDecision, RetentionPolicy } from "@holdfast/core/retention";
import type { CheckpointSummary } from "@holdfast/core/checkpoint";
import type { GcPlan } from "@holdfast/core/gc";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { byteText } from "@holdfast/core/store-size";
import type { Holdfast } from "../../holdfast.ts";
import { namedActor, userName } from "../../actor.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { parseDuration } from "@holdfast/formats/setting-values";
import { countText } from "../output/quantities.ts";
import { type RunSelection, removeRuns } from "./rm-runs.ts";

export const spec = {
  name: "rm",
  summary: "remove runs or checkpoints that you do not need",
  details: [
    "Removes a whole run: its worktree, the branch that it created, its refs, checkpoints, logs and files for other tools. Its journal and the receipts of its side effects stay as a tombstone; its id is not used again. Pull requests and branches on a remote stay. If the command is interrupted, run it again.",
    "Without --force it refuses a run that has not ended or that you saved by hand, uncommitted files, ignored files that only its worktree has, and commits that no other branch has (unless the pull request with them was merged, or a branch has their changes after a squash or rebase): of its branch, of a detached HEAD, or in checkpoints only. Commits that the run made and then replaced itself do not count. It also refuses uncommitted files that only a checkpoint after the run's end has, or the newest one if the worktree is gone, for example after `gc`. A fork that has not run yet is removed if its worktree is as the fork made it. Ignored files that can be made again do not count: unchanged copies of workspace.copy, directories that set-up made, and dependencies, caches and build results such as node_modules, .venv or target, unless a repository is in them. A repeated command needs its own --force. --done and --older-than select runs that have ended; of these, the ones that would be refused are kept and listed. A run that a process works on is never removed, and a run with forks only together with them. A branch that is checked out in another worktree stays, and so does a remote-tracking branch with commits of others. So does a branch that the run found, and did not create; the output names it.",
    "With an address such as RUN@7 it removes the named checkpoints and frees their space. Each leaves a tombstone: its number is not used again, and the journal shows who removed it. Files in worktrees and branches stay. `holdfast gc` removes what the retention rules allow.",
    "Without --force it refuses checkpoints that are protected: tagged ones, the best scored, the parent of a fork, the only copy of files or commits, those of a recorded run. The newest checkpoint of a run cannot be removed, because the run continues from it. If one checkpoint is refused, nothing is removed.",
  ],
  operands: [{ name: "ADDRESS", about: "RUN, RUN@7 or RUN@tag", required: false, completes: "address", many: true }],
  consent: "store",
  flags: {
    done: { type: "boolean", about: "every run that is done" },
    "older-than": {
      type: "text",
      value: "TIME",
      about: "every run that ended before this time (30d); with --done, of those",
    },
    force: { type: "boolean", about: "also unmerged runs, and protected checkpoints with their tags" },
    "dry-run": { type: "boolean", about: "show what would be removed, and change nothing" },
  },
  examples: [
    { line: "holdfast rm fix-login", about: "remove a run with its worktree and branch" },
    { line: "holdfast rm --done --older-than 30d --dry-run", about: "show which old runs can be removed" },
    { line: "holdfast rm fix-login@3", about: "remove one checkpoint" },
    { line: "holdfast rm fix-login@3 fix-login@4 --dry-run", about: "show whether two can be removed" },
    { line: "holdfast rm fix-login@works --force", about: "remove a tagged one, and its tag" },
  ],
  json: 'For runs {"runs": [{"run", "state", "worktree", "branch", "ignored", "checkpoints", "effects", "reasons", "forks", "removed"}], "freedBytes": N, "dryRun": false}; "reasons" is why a run is kept without --force, "forks" are the runs that keep it. For checkpoints {"removed": [{"run", "sequence", "why", "droppedAt"}], "freedBytes": N, "dryRun": false}; with --dry-run "removed" has "run", "sequence" and "bytes" of each, and "freedBytes" is absent.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const dryRun = input.on("dry-run");
  const selection = selectionOf(input);
  if (selection !== null) return await removeRuns(shell, selection);
  const holdfast = await shell.open({ create: false, writes: !dryRun });
  const removals = await planRemovals(holdfast, input.operands, input.on("force"));
  if (dryRun) {
    const removed = removals.flatMap(({ run: id, drops }) =>
      drops.map(({ sequence, bytes }) => ({ run: id, sequence, bytes })),
    );
    shell.print({
      json: () => ({ removed, dryRun }),
      text: () => removed.map((one) => `Would remove ${one.run}@${one.sequence} (${byteText(one.bytes)})\n`).join(""),
    });
    return "done";
  }
  const removing = applyRemovals(holdfast, removals);
  const report = await shell.finish(removing, {
    done: ({ removed }) => `${countText(removed.length, "checkpoint")} removed`,
  });
  shell.print({
    json: () => ({ ...report, dryRun }),
    text: () =>
      `Removed ${report.removed.map(({ run: id, sequence }) => `${id}@${sequence}`).join(", ")}; freed ${byteText(report.freedBytes)}.\n`,
  });
  return "done";
}

type Drop = Extract<RetentionDecision, { readonly action: "drop" }>;

interface Removal {
  readonly run: string;
  readonly plan: GcPlan;
  readonly drops: readonly Drop[];
  readonly tags: readonly string[];
}

/** Under this policy retention keeps only what it protects, with the reason. */
const KEEP_PROTECTED: RetentionPolicy = {
  perTrigger: {},
  defaultKeep: { keep: 0, per: "run" },
  maxPerRun: null,
  maxAgeDays: null,
  onSuccess: "by_rules",
  onFailure: "by_rules",
  recentDays: 0,
  minRunAgeDays: null,
  maxBytes: null,
};

/** Throws, before anything is removed, if one of the checkpoints must stay. */
async function planRemovals(holdfast: Holdfast, typed: readonly string[], force: boolean): Promise<readonly Removal[]> {
  const named: CheckpointSummary[] = [];
  for (const address of typed) named.push(await holdfast.resolve(address));
  const removals: Removal[] = [];
  for (const [run, checkpoints] of Map.groupBy(named, (checkpoint) => checkpoint.run)) {
    const plan = await holdfast.planGc({ run, policy: KEEP_PROTECTED });
    const decisions = new Map(
      plan.plans.flatMap((one) => one.decisions.map((decision) => [decision.sequence, decision])),
    );
    const newest = Math.max(...decisions.keys());
    const unique = [...new Map(checkpoints.map((checkpoint) => [checkpoint.sequence, checkpoint])).values()];
    for (const { id, sequence } of unique) {
      const decision = decisions.get(sequence);
      if (sequence === newest)
        throw usageError(
          `${id} cannot be removed: it is the newest checkpoint of ${run}, and the run continues from it`,
          "Nothing was removed. Leave this checkpoint out.",
        );
      if (decision?.action === "keep" && !force)
        throw new HoldfastError({
          code: "NEEDS_DECISION",
          message: `${id} is protected: ${decision.why}`,
          hint: `Nothing was removed. To remove it all the same: \`holdfast rm ${id} --force\`.`,
        });
    }
    const why = `removed by ${userName(UNKNOWN)}`;
    removals.push({
      run,
      plan,
      drops: unique.map(({ sequence, size }) => ({ action: "drop", sequence, why, bytes: size.added })),
      tags: unique.flatMap(({ tags }) => tags),
    });
  }
  return removals;
}

async function applyRemovals(holdfast: Holdfast, removals: readonly Removal[]) {
  const reports = [];
  for (const { run, plan, drops, tags } of removals) {
    // The store drops no tagged checkpoint.
    const handle = await holdfast.run(run);
    for (const tag of tags) await handle.untag(tag);
    reports.push(await holdfast.applyGc({ ...plan, plans: [{ run, decisions: drops }] }));
  }
  return {
    removed: reports.flatMap(({ dropped }) => dropped),
    freedBytes: reports.reduce((sum, { sweep }) => sum + sweep.freedBytes, 0),
  };
}

/** The runs that the command line names; null if it names checkpoints. */
function selectionOf(input: Input<(typeof spec)["flags"]>): RunSelection | null {
  const { operands } = input;
  const age = input.text("older-than");
  const older = age === undefined ? undefined : parseDuration(age);
  if (age !== undefined && older === undefined)
    throw usageError(`--older-than cannot be "${age}"`, "Give a duration such as 30d or 12h.");
  const bySelection = input.on("done") || older !== undefined;
  if (bySelection && operands.length > 0)
    throw usageError("Both runs and --done or --older-than were given", "Give the runs, or select them.");
  if (!bySelection && operands.length === 0)
    throw usageError("Nothing was named to remove", "Give a run, such as `holdfast rm fix-login`, or --done.");
  const checkpoints = operands.filter((address) => address.includes("@"));
  if (checkpoints.length > 0 && checkpoints.length < operands.length)
    throw usageError("Both runs and checkpoints were given", "Remove the runs and the checkpoints separately.");
  if (checkpoints.length > 0) return null;
  const common = {
    force: input.on("force"),
    dryRun: input.on("dry-run"),
    by: namedActor(process.env) ?? userName(UNKNOWN),
  };
  return bySelection
    ? { ...common, runs: null, onlyDone: input.on("done"), olderThanMs: older ?? 0 }
    : { ...common, runs: operands };
}

const UNKNOWN = "an unknown user";

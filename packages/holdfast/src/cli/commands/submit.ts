/** The `submit` command: creates a run as `run` does, and leaves its execution to the workers of a queue. */
import { hostname } from "node:os";
import { splitAgent } from "@holdfast/core/agent";
import type { Dispatch } from "@holdfast/core/dispatch";
import { isEnded } from "@holdfast/core/run";
import { priorityText } from "@holdfast/core/lease";
import { statusWord } from "@holdfast/core/status";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { isStoreUrl, withoutPassword } from "@holdfast/postgres/store-url";
import { isQueueName } from "../../config/fleet-settings.ts";
import type { EffectiveConfig } from "../../config/effective-config.ts";
import type { Holdfast } from "../../holdfast.ts";
import { defaultQueue, dispatchPlace, neededLabels, openDispatch, repositoryName } from "../../worker/open-dispatch.ts";
import { readSubmission } from "../../worker/fleet-runs.ts";
import { reconcileRun } from "../../worker/fleet-worker.ts";
import { type Submission, jobOf, lackOf } from "../../worker/plan-fleet.ts";
import type { CommandSpec, Flags, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { findRun, issueNumber } from "../operands.ts";
import type { Page } from "../output/page.ts";
import { unpushedText } from "../output/status-text.ts";
import { momentText } from "../output/text.ts";
import { readSlot } from "../parse-arguments.ts";
import { reportDatabase } from "../report-remotes.ts";
import { runSpec } from "../run-flags.ts";
import { runJson } from "../run-json.ts";
import { readLimits } from "../run-options.ts";
import { type RunInput, prepareRun } from "./run.ts";

/** Flags of `run` for the process that executes the run: that of a worker has its own. */
const OF_SESSION = ["max-time", "max-loops", "force", "detach", "resume", "wait"] as const;
type OfSession = (typeof OF_SESSION)[number];
type OfRun = Omit<(typeof runSpec)["flags"], OfSession | "priority">;

const ownFlags = {
  priority: { type: "text", value: "P", about: "priority in the queue: low, normal (default), high, or a number" },
  queue: { type: "text", value: "NAME", about: "the queue to join (default: the name of the run's agent)" },
  at: { type: "text", value: "TIME", about: "not before this time, such as 2026-12-01T02:00" },
  needs: { type: "text", value: "LABEL", about: "only for workers with this label; repeatable" },
} as const;

export const spec = {
  name: "submit",
  summary: "queue a run for the workers of your team",
  details: [
    "Checks and creates the run of an issue or a task exactly as `holdfast run` does, with the same id, but does not execute it: a worker that has joined the queue does (`holdfast worker --join`). A submitted run has the status queued until then. Repeating the command finds the same run.",
    "With the id of an unfinished run it gives that run to the workers, for example after Ctrl+C, `holdfast stop` or `holdfast queue --cancel`. It is no longer paused, and --max-cost and the like raise its limits. A process that executes the run keeps it until it stops.",
    "The highest --priority comes first, then the oldest run. A queue is a group of runs with a common limit (`fleet.queues` in the config): by default the runs of one agent. See docs/team.md.",
  ],
  operands: [
    {
      name: "ISSUE",
      about: "number of the issue, or the id of an unfinished run",
      required: false,
      completes: "run",
    },
  ],
  consent: "works",
  flags: { ...withoutSession(), ...ownFlags },
  flagGroups: {
    Queue: ["queue", "priority", "at", "needs"],
    ...Object.fromEntries(
      Object.entries(runSpec.flagGroups).flatMap(([group, names]) => {
        const kept = names.filter((name) => name !== "priority" && !isOfSession(name));
        return kept.length === 0 ? [] : [[group, kept] as const];
      }),
    ),
  },
  examples: [
    { line: "holdfast submit 42", about: "queue the run of issue 42" },
    { line: "holdfast submit 42 --priority high --at 2026-12-01T02:00", about: "at night, before all others" },
    { line: "holdfast submit issue-42", about: "give a run that you stopped back to the workers" },
  ],
  windsDown: true,
  json: '{"kind": "submitted", "run": {...}, "submission": {"queue", "repository", "priority", "needs": [...], "host": the machine that alone has its files, or null, "at": time or null}, "dispatch", "known": true if it was in the queue before, "unpushed": its files that the remote of `files.remote` lacks, as `status` has them, or null}; with --dry-run {"kind": "plan", "plan": {...}} as `run`, or for a run that exists {"kind": "plan", "run", "submission", "known"}. If the run has ended, its result as `run` prints it.',
} as const satisfies CommandSpec;

function isOfSession(name: string): name is OfSession {
  return OF_SESSION.some((one) => one === name);
}

function withoutSession(): OfRun {
  const { "max-time": _t, "max-loops": _l, force: _f, detach: _d, resume: _r, wait: _w, ...others } = runSpec.flags;
  const { priority: _p, ...kept } = others;
  return kept;
}

type SubmitInput = Input<OfRun & typeof ownFlags>;

export async function run(shell: Shell, input: SubmitInput): Promise<Exit> {
  const request = readQueueFlags(input);
  const typed = input.operand(0);
  if (typed !== undefined && issueNumber(typed) === undefined) return await submitExisting(shell, input, request);
  return await prepareRun(shell, asRunInput(input), {
    resumes: true,
    usesHeld: true,
    forWorkers: true,
    async unfinished(holdfast, run, starting) {
      starting?.remove();
      await noteOtherAgent(shell, holdfast, input, run);
      return await enterAgain(shell, holdfast, input, { run, request });
    },
    async start(holdfast, plan, starting) {
      const { config, id } = plan;
      const submission = await submissionFor(shell, holdfast, {
        request,
        workflow: plan.shape.name,
        config,
        host: plan.place === null ? null : hostname(),
      });
      return await withDispatch(shell, holdfast, async (dispatch) => {
        shell.signal.throwIfAborted();
        await shell.finish(holdfast.work.submit(plan, { submission, starting }), { done: () => `${id} was created` });
        return await enter(shell, holdfast, { ...dispatch, run: id, submission, known: false });
      });
    },
  });
}

interface QueueRequest {
  readonly queue: string | null;
  readonly priority: number | null;
  readonly needs: readonly string[];
  readonly at: string | null;
}

function readQueueFlags(input: SubmitInput): QueueRequest {
  const [queue = null, at] = [input.text("queue"), input.text("at")];
  if (queue !== null && !isQueueName(queue))
    throw usageError(`"${queue}" cannot be the name of a queue`, "Use letters, digits and _ . / -, such as claude.");
  const time = at === undefined ? null : Date.parse(at);
  if (time !== null && !Number.isFinite(time))
    throw usageError(`--at cannot be "${at}"`, "Give a date and a time, such as 2026-12-01T02:00.");
  const { priority = null } = readSlot(asRunInput(input));
  return { queue, priority, needs: input.texts("needs"), at: time === null ? null : new Date(time).toISOString() };
}

/** The flags of `run` that this command does not have are not given. */
function asRunInput(input: SubmitInput): RunInput {
  return {
    operands: input.operands,
    paths: input.paths,
    operand: (at) => input.operand(at),
    on: (name) => !isOfSession(name) && input.on(name),
    text: (name) => (isOfSession(name) ? undefined : input.text(name)),
    texts: (name) => (isOfSession(name) ? [] : input.texts(name)),
  };
}

/** Flags that change a run that exists. */
const OF_EXISTING = ["queue", "priority", "at", "needs", "max-tokens", "max-cost", "max-total-time", "dry-run"];

async function submitExisting(shell: Shell, input: SubmitInput, request: QueueRequest): Promise<Exit> {
  const names: Flags = spec.flags;
  const typed: { on(flag: string): boolean } = input;
  const other = Object.keys(names).find((name) => typed.on(name) && !OF_EXISTING.includes(name));
  if (other !== undefined)
    throw usageError(
      `--${other} is for a new run, and ${input.operand(0)} names an existing one`,
      `Leave it out; a run keeps the options that it was started with.`,
    );
  const holdfast = await shell.open({ create: false });
  const { id } = await findRun(holdfast, input.operand(0));
  return await enterAgain(shell, holdfast, input, { run: id, request });
}

/** A run keeps its agent, so another one on the command line must not be ignored in silence. */
async function noteOtherAgent(shell: Shell, holdfast: Holdfast, input: SubmitInput, run: string): Promise<void> {
  const typed = input.text("agent");
  const own = (await holdfast.store.latest(run))?.planes.config.agent ?? null;
  if (typed === undefined || own === null || splitAgent(typed).provider === own) return;
  const { program } = shell.talk;
  shell.notify(
    `${run} exists with the agent ${own}, so --agent ${typed} is not used. For a new run: ${program} stop ${run} --now, then this command with --again`,
  );
}

async function enterAgain(
  shell: Shell,
  holdfast: Holdfast,
  input: SubmitInput,
  { run, request }: { readonly run: string; readonly request: QueueRequest },
): Promise<Exit> {
  const summary = await (await holdfast.run(run)).summary();
  const latest = await holdfast.store.latest(run);
  if (isEnded(summary.state) || latest === undefined || summary.workflow === "manual") {
    const { status } = await holdfast.runWithStatus(run);
    throw new HoldfastError({
      code: "NOTHING_TO_RESUME",
      message: `Run ${run} cannot be submitted: it is ${statusWord(status)}`,
      hint: `See \`holdfast status ${run}\`.`,
    });
  }
  const before = await readSubmission(holdfast.store, run);
  const { config, files } = latest.planes;
  const known = before?.host ?? null;
  const host = files === null ? null : (known ?? hostname());
  const submission = await submissionFor(shell, holdfast, {
    request,
    workflow: summary.workflow,
    config,
    host,
    before,
  });
  // No other machine is known to have the files, and a worker here would fail without them.
  if (submission.host !== null && known === null && files !== null && (await holdfast.workspaces?.has(files)) !== true)
    throw new HoldfastError({
      code: "TREE_MISSING",
      message: `The files of ${run} are not on this machine, and \`files.remote\` is not set`,
      hint: `Run \`holdfast submit ${run}\` on the machine that executed it. Or set files.remote on both, and run \`holdfast store push ${run}\` there first: docs/files.md.`,
      data: { run },
    });
  if (input.on("dry-run")) {
    const found = await holdfast.runWithStatus(run);
    shell.print({
      json: () => ({ kind: "plan", run: runJson(found), submission, known: before !== null }),
      text: (page) =>
        `Would ${before === null ? "queue" : "queue again"}: ${submissionWords(run, submission, page)}.\n`,
    });
    shell.notify(`The run exists and is ${statusWord(found.status)}: ${shell.talk.program} status ${run}`);
    return "done";
  }
  return await withDispatch(shell, holdfast, async (dispatch) => {
    await shell.finish(holdfast.work.resubmit(run, submission, readLimits(asRunInput(input))), { done: () => null });
    return await enter(shell, holdfast, { ...dispatch, run, submission, known: before !== null });
  });
}

async function submissionFor(
  shell: Shell,
  holdfast: Holdfast,
  params: {
    readonly request: QueueRequest;
    /** The machine that has the files; null: there are none. */
    readonly host: string | null;
    readonly before?: Submission | null;
  } & Pick<Parameters<typeof neededLabels>[0], "workflow" | "config">,
): Promise<Submission> {
  const { request, workflow, config, before = null } = params;
  const { settings } = await shell.config();
  const host = settings.files.remote === null && isStoreUrl(holdfast.store.location) ? params.host : null;
  if (host !== null)
    shell.notify(
      "The files of the run stay on one machine, so only a worker there can execute it. With `files.remote` in the config every worker can: docs/files.md.",
    );
  const queue = request.queue ?? before?.queue ?? (await defaultQueue({ workflow, config }, settings.fleet));
  return {
    queue,
    repository: before?.repository ?? (await repositoryName(holdfast)),
    priority: request.priority ?? before?.priority ?? 0,
    needs:
      before !== null && request.needs.length === 0
        ? before.needs
        : await neededLabels({ workflow, config, more: request.needs }),
    host,
    at: request.at,
  };
}

interface OpenedDispatch {
  readonly dispatch: Dispatch;
  readonly place: string;
}

/** Opens the queue before anything is created: a role that may not write there gets its error first. */
async function withDispatch(
  shell: Shell,
  holdfast: Holdfast,
  work: (opened: OpenedDispatch) => Promise<Exit>,
): Promise<Exit> {
  const { settings }: EffectiveConfig = await shell.config();
  const place = dispatchPlace(settings, holdfast.store.location);
  const dispatch = await openDispatch(place, {
    limits: settings.fleet.limits,
    env: shell.env,
    onWait: reportDatabase(shell),
  });
  try {
    return await work({ dispatch, place });
  } finally {
    await dispatch.close();
  }
}

function submissionWords(run: string, { queue, priority, at }: Submission, page: Page): string {
  const when = at === null ? "" : `, not before ${momentText(at, page)}`;
  return `${run} in ${queue}, priority ${priorityText(priority)}${when}`;
}

/** The store has the submission by now. If this fails, any worker of the queue enters the run. */
async function enter(
  shell: Shell,
  holdfast: Holdfast,
  params: OpenedDispatch & { readonly run: string; readonly submission: Submission; readonly known: boolean },
): Promise<Exit> {
  const { dispatch, place, run, submission, known } = params;
  await reconcileRun(dispatch, holdfast, run);
  const lack = lackOf(jobOf(holdfast.store.id, run, submission).needs, await dispatch.workers());
  const found = await holdfast.runWithStatus(run);
  const unpushed = (await holdfast.files?.unpushed(run)) ?? null;
  shell.print({
    json: () => ({
      kind: "submitted",
      run: runJson(found),
      submission,
      dispatch: withoutPassword(place),
      known,
      unpushed,
    }),
    text: (page) => {
      const word = found.status.kind === "queued" ? (known ? "Queued already" : "Queued") : "Submitted";
      const now = found.status.kind === "queued" ? "" : ` It is ${statusWord(found.status)} now.`;
      return `${word}: ${submissionWords(run, submission, page)}.${now}\n`;
    },
  });
  const lacking = unpushedText(unpushed);
  if (lacking !== null)
    shell.notify(
      `${lacking}. Workers on other machines lack these files until you send them: ${shell.talk.program} store push ${run}`,
    );
  // The id of a store says nothing to a reader.
  if (lack !== null) shell.notify(`It waits: ${lack.replace(/store:\S+/, "a clone of this repository")}.`);
  shell.notify(`Show the queue: ${shell.talk.program} queue`);
  return "done";
}

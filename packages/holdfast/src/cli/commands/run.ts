/** The `run` command: starts a run of a workflow on an issue or a task. */
import { isUtf8 } from "node:buffer";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { splitAgent } from "@holdfast/core/agent";
import type { JsonObject } from "@holdfast/core/json";
import { choiceHint } from "@holdfast/core/options";
import type { RunSummary, Work } from "@holdfast/core/run";
import { HoldfastError, describeValue, usageError } from "@holdfast/platform/error";
import { readRegularFile } from "@holdfast/platform/files";
import {
  BUILT_IN_NAMES,
  type BuiltInName,
  DEFAULT_WORKFLOW,
  filesTasks,
  isBuiltIn,
} from "@holdfast/workflows/built-in";
import type { CrunchSettings } from "@holdfast/workflows/crunch/settings";
import type { Announcement } from "../../announce-start.ts";
import { guessSetup, readerOf } from "../../config/detect-setup.ts";
import type { ImplSettings, WorkSettings } from "../../config/work-settings.ts";
import type { Holdfast } from "../../holdfast.ts";
import type { StartPlan } from "../../plan-start.ts";
import { NEW_REPOSITORY } from "../../preflight-errors.ts";
import type { Input, Shell } from "../command.ts";
import { USES_OF } from "../consent.ts";
import {
  RUN_ID_VARIABLE,
  executeDetached,
  executeRun,
  otherTargetError,
  runHeldError,
  runUnfinishedError,
} from "../execute-run.ts";
import type { Exit } from "../exit.ts";
import { unlessAborted } from "../interrupts.ts";
import { paint } from "../output/page.ts";
import { saidText } from "../output/terminal.ts";
import { escapeText } from "../output/text.ts";
import { readSlot } from "../parse-arguments.ts";
import { loadConsented, workflowLabel, rememberTyped } from "../run-consent.ts";
import { runSpec as spec } from "../run-flags.ts";
import {
  type RunRequest,
  deprecatedFlags,
  promptsOf,
  readLimits,
  readRalphFiles,
  readRequest,
  readSession,
  readWorkflowLimits,
} from "../run-options.ts";
import { resumeRun, waitsUntil } from "../resume-run.ts";
import { namedByIssue, planText, planUses, rolesAndFallback, usesText } from "../run-plan.ts";

export type RunInput = Input<(typeof spec)["flags"]>;

export { spec };

/** What a command does with the run of a piece of work, once everything was checked. */
export interface RunCommand {
  /** Whether an unfinished run of the work is used. Otherwise it is an error. */
  readonly resumes: boolean;
  /** Also a run that a process executes now. */
  readonly usesHeld: boolean;
  /** A worker executes the run, perhaps on another machine. */
  readonly forWorkers: boolean;
  unfinished(holdfast: Holdfast, run: string, starting: Announcement | null): Promise<Exit>;
  /** Starts the planned run. */
  start(holdfast: Holdfast, plan: StartPlan, starting: Announcement | null): Promise<Exit>;
}

export async function run(shell: Shell, input: RunInput): Promise<Exit> {
  const dryRun = input.on("dry-run");
  const loopSlot = readSlot(input);
  const session = readSession(input);
  return await prepareRun(shell, input, {
    resumes: input.on("resume"),
    usesHeld: false,
    forWorkers: false,
    async unfinished(holdfast, found, starting) {
      starting?.remove();
      return await resumeRun(shell, holdfast, {
        run: found,
        limit: readLimits(input),
        limits: workflowLimitsOf(input),
        ...session,
        dryRun,
        wait: input.on("wait"),
        ...loopSlot,
        detach: input.on("detach"),
      });
    },
    async start(holdfast, plan, starting) {
      if (input.on("detach")) {
        starting?.remove();
        return await executeDetached(shell, holdfast, { run: plan.id, workflow: plan.shape.name, work: plan.work });
      }
      // The user stopped the command while it planned: nothing is started.
      shell.signal.throwIfAborted();
      const start = (): Promise<Exit> =>
        executeRun(shell, holdfast, (listen) =>
          holdfast.work.start(plan, { listen, signal: shell.signal, starting, ...session, ...loopSlot }),
        );
      const exit = input.on("wait")
        ? await startWithSpace(shell, () => holdfast.hasRoom(plan.id), start)
        : await start();
      const waits = exit === "waiting" && input.on("wait") && (await waitsUntil(holdfast, plan.id)) !== null;
      if (!waits) return exit;
      return await resumeRun(shell, holdfast, { run: plan.id, dryRun: false, wait: true, ...session, ...loopSlot });
    },
  });
}

/** Asks for consent, runs the preflight, and finds or plans the run. Creates nothing but the store and the issue of a task. */
export async function prepareRun(shell: Shell, input: RunInput, command: RunCommand): Promise<Exit> {
  const dryRun = input.on("dry-run");
  const stated = await shell.consent.stated();
  const only = await onlyAgent(shell, input, stated.settings.work);
  if (!dryRun) await requireStart(shell, input, { settings: stated.settings.work, only });
  // A dry run shows what the file sets, and uses none of it.
  const { settings } = dryRun ? stated : await shell.config();
  for (const warning of deprecatedFlags(input)) shell.notify(`${paint(shell.talk, "yellow", "warning:")} ${warning}`);
  // The store of a first run is created when the preflight has found no error.
  const first = await shell.open({ create: false, pretend: true, writes: !dryRun }).catch(notARepository);
  // After `open`, which knows the secrets that the task may contain.
  const request = withAgent(readRequest(input, settings.work), only);
  // `start` removes the announcement when it holds the lease; every other return removes it here.
  using starting = dryRun ? null : first.work.announce(request);
  const planFor = (holdfast: Holdfast, of: Work, like?: StartPlan): Promise<StartPlan> =>
    unlessAborted(
      shell.signal,
      planRun(
        shell,
        holdfast,
        { ...request, work: of },
        {
          settings: settings.work.impl,
          input,
          like,
          forWorkers: command.forWorkers,
        },
      ),
    );
  const limits = workflowLimitsOf(input);
  const { resumes } = command;
  const named = await openRun(first, request.work, command);
  if (named !== undefined && resumes) return await command.unfinished(first, named.id, starting);
  if (named !== undefined) throw runUnfinishedError(await first.runWithStatus(named.id));
  const files = filesTasks(request.workflow) && request.work.kind === "task";
  // A start that the preflight refuses files no issue: others would see it, and it cannot be taken back.
  const planned = await planFor(first, request.work);
  const holdfast = dryRun ? first : await shell.createStore();
  const work = files ? await unlessAborted(shell.signal, fileTask(holdfast, request, dryRun)) : request.work;
  const ofIssue = files ? await openRun(holdfast, work, command) : undefined;
  if (ofIssue !== undefined && resumes) return await command.unfinished(holdfast, ofIssue.id, starting);
  const plan = holdfast === first && work === request.work ? planned : await planFor(holdfast, work, planned);
  const raised =
    resumes && !command.usesHeld && Object.keys(limits).length > 0 && plan.earlier?.state.kind === "failed";
  const open = ofIssue ?? (raised ? plan.earlier : await openTask(holdfast, plan, command));
  if (open !== undefined && resumes) return await command.unfinished(holdfast, open.id, starting);
  if (plan.earlier !== null && open === undefined) {
    if (plan.earlier.state.kind === "done") await refuseOtherTarget(holdfast, plan.earlier, request);
    return await showEarlier(shell, holdfast, plan, dryRun);
  }
  if (open !== undefined) throw runUnfinishedError(await holdfast.runWithStatus(open.id));
  if (dryRun) return await showPlan(shell, plan);
  sayEarlier(shell, plan);
  if (plan.place !== null && settings.workspace.setup === null) sayMissingSetup(shell);
  return await command.start(holdfast, plan, starting);
}

function workflowLimitsOf(input: RunInput): JsonObject {
  return readWorkflowLimits({
    text: (name) => input.text(name) ?? (name === "max-iterations" ? input.text("max-iter") : undefined),
    // The check is part of the run's identity: another one names another run.
    texts: () => [],
  });
}

/** Dependencies are not in git, so a fresh worktree lacks them. Nothing that only a file suggests is executed. */
function sayMissingSetup(shell: Shell): void {
  const guess = guessSetup(readerOf(shell.consent.root));
  if (guess === null) return;
  shell.notify(
    `No set-up is configured, but ${guess.why}: agents and gates\n` +
      `work without dependencies. To change that: ${shell.talk.program} setup --setup ${JSON.stringify(guess.command)}`,
  );
}

/** The same finding as of the preflight, which cannot run without a place for its store. */
function notARepository(error: unknown): never {
  const isOutside = error instanceof HoldfastError && error.code === "NOT_A_REPOSITORY";
  throw isOutside ? new HoldfastError({ code: error.code, message: error.message, hint: NEW_REPOSITORY }) : error;
}

/** Prints what a run would do and use, and the notices of the preflight. */
async function showPlan(shell: Shell, plan: StartPlan): Promise<Exit> {
  const uses = await planUses(shell, await shell.consent.stated(), plan);
  shell.print({
    json: () => ({ kind: "plan", plan: { ...planDocument(plan), ...namedByIssue(plan), uses } }),
    text: (page) => planText(plan, page) + usesText(uses, page),
  });
  for (const notice of plan.preflight) shell.notify(saidText(notice, shell.talk));
  return "done";
}

/** The only agent that is ready, if none is named; null: one is named, or there is not exactly one. */
async function onlyAgent(shell: Shell, input: RunInput, settings: WorkSettings): Promise<string | null> {
  const request = readRequest(input, settings);
  const options = await withTeam(shell, request);
  const { lacksAgent } = await import("../../adapters.ts");
  if (!(await lacksAgent(request.workflow, { agent: request.agent, options }))) return null;
  const { observeAgents } = await import("../../check-agents.ts");
  const { unnamedAgentOf } = await import("../../observe-start.ts");
  const { ready } = unnamedAgentOf(await observeAgents());
  const [agent] = ready;
  if (agent === undefined || ready.length > 1) return null;
  shell.notify(
    `Using ${agent}, the only agent that is ready. Another one: --agent, or \`${shell.talk.program} setup\`.`,
  );
  return agent;
}

function withAgent(request: RunRequest, only: string | null): RunRequest {
  return request.agent === null && only !== null ? { ...request, agent: only } : request;
}

/**
 * Retries the start when there is space. While the disk is too full to create the first worktree, no run exists that
 * could wait. The next attempt with the same plan continues a failed one.
 */
async function startWithSpace(
  shell: Shell,
  hasRoom: () => Promise<boolean>,
  start: () => Promise<Exit>,
): Promise<Exit> {
  for (let said = ""; ;) {
    try {
      return await start();
    } catch (error) {
      if (!(error instanceof HoldfastError) || error.code !== "DISK_FULL") throw error;
      if (error.message !== said) shell.notify(`Waiting for disk space: ${escapeText(error.message)} …`);
      said = error.message;
    }
    do await sleep(LOOK_AGAIN_MS, undefined, { signal: shell.signal });
    while (!(await hasRoom()));
  }
}

const LOOK_AGAIN_MS = 2000;

/** Asks before anything is started. A setting that a flag replaces needs no consent. `settings`: as the file sets them. */
async function requireStart(
  shell: Shell,
  input: RunInput,
  { settings, only }: { readonly settings: WorkSettings; readonly only: string | null },
): Promise<void> {
  const { REPLACED_BY } = await import("../../config/consent.ts");
  const { agentFileItems } = await import("../../config/agent-files.ts");
  const typed: { on(flag: string): boolean } = input;
  const replaced = Object.entries(REPLACED_BY).flatMap(([key, flags]) =>
    flags.some((flag) => typed.on(flag)) ? [key] : [],
  );
  const workflow = input.text("workflow") ?? DEFAULT_WORKFLOW;
  const uses = [...USES_OF.works, "start" as const, ...(isBuiltIn(workflow) ? [workflow] : [])];
  const agents = await agentsOf(shell, withAgent(readRequest(input, settings), only), settings);
  const words = TYPED.flatMap((flag) => input.texts(flag));
  await rememberTyped(
    shell,
    agents.filter((agent) => words.some((word) => word === agent || word.endsWith(`=${agent}`))),
  );
  const more = agentFileItems({ agents, root: shell.consent.root });
  await shell.consent.require({ uses, replaced: new Set(replaced), more, agents });
}

/** Flags that name an agent; `--model` as `ROLE=AGENT`. */
const TYPED = ["agent", "impl-model", "review-model", "backend", "model"] as const;

/** The agents that the run would start. */
async function agentsOf(shell: Shell, request: RunRequest, settings: WorkSettings): Promise<readonly string[]> {
  const { workflow: name, agent } = request;
  const { provider = null, model = null } = agent === null ? {} : splitAgent(agent);
  const plan = { config: { agent: provider, model, inputs: await withTeam(shell, request) }, shape: { name } };
  return (await rolesAndFallback(plan, settings.errors.fallback.agents)).map((role) => role.agent);
}

/** The options, with the agents of crunch's team. */
async function withTeam(shell: Shell, { workflow, options, agentTyped }: RunRequest): Promise<JsonObject> {
  if (workflow !== "crunch") return options;
  const { agents } = withoutAgents(await shell.consent.crunchSettings(), agentTyped);
  return { ...options, settings: { agents } };
}

/**
 * Files a task as an issue first, if there is a forge. The same text yields the same issue, also after a crash. A dry
 * run only looks for the issue of an earlier run.
 */
async function fileTask(holdfast: Holdfast, { work, options }: RunRequest, dryRun: boolean): Promise<Work> {
  if (work.kind !== "task") return work;
  if (dryRun) return (await holdfast.work.findFiledTask(work.text)) ?? work;
  const labels = typeof options["type"] === "string" ? [`type:${options["type"]}`] : [];
  return (await holdfast.work.fileTask(work.text, labels)) ?? work;
}

/** The unfinished run of this work. Throws an error that names the holder if another process works on it. */
async function openRun(
  holdfast: Holdfast,
  work: Work,
  { resumes, usesHeld }: Pick<RunCommand, "resumes" | "usesHeld">,
): Promise<RunSummary | undefined> {
  if (work.kind !== "issue") return undefined;
  const found = await holdfast.work.findRunFor(work.number);
  switch (found.kind) {
    case "none":
      // The pre-flight reports --resume of an ended run: done, or failed with its reason.
      return resumes && !usesHeld ? found.ended[0] : undefined;
    case "one": {
      const holder = await (await holdfast.run(found.run.id)).holder();
      if (holder?.alive === "alive" && !usesHeld) throw runHeldError(found.run.id, holder.lease);
      return found.run;
    }
    case "several":
      throw new HoldfastError({
        code: "NEEDS_DECISION",
        message: `Issue ${work.number} has ${found.runs.length} unfinished runs: ${found.runs.map(({ id }) => id).join(", ")}`,
        hint: `Continue one of them: ${found.runs.map(({ id }) => `\`holdfast resume ${id}\``).join(" or ")}.`,
      });
  }
}

/** The work has ended: shows the outcome of that run and how to start another one. */
async function showEarlier(shell: Shell, holdfast: Holdfast, plan: StartPlan, dryRun: boolean): Promise<Exit> {
  const work = plan.work.kind === "issue" ? `issue ${plan.work.number}` : "this task";
  const why = `${plan.id} has ended, and it is the run of ${work}. For a new run, add --again.`;
  if (dryRun) {
    shell.print({
      json: () => ({ kind: "plan", plan: planDocument(plan) }),
      text: () => `Nothing would be done: ${why}\n`,
    });
    return "done";
  }
  const exit = await executeRun(shell, holdfast, () => holdfast.work.start(plan, {}));
  shell.notify(`Nothing was done: ${why}`);
  return exit;
}

/** A crunch run that stopped at its target has not reached a later one, so the user must decide; this is not a success. */
async function refuseOtherTarget(holdfast: Holdfast, run: RunSummary, { options, work }: RunRequest): Promise<void> {
  if (run.workflow !== "crunch" || run.latest?.stage !== "stopped") return;
  const latest = await holdfast.store.latest(run.id);
  if (options["target"] === undefined || latest?.planes.config.inputs["target"] === options["target"]) return;
  const { pullRequest } = await holdfast.status(run.id);
  const request = pullRequest === null || pullRequest.undone ? null : pullRequest.url;
  throw otherTargetError(run, { issue: work.kind === "issue" ? work.number : null, request });
}

interface PlanInput {
  readonly settings: ImplSettings;
  readonly input: RunInput;
  /** An earlier plan of the same command line, whose facts are used again. */
  readonly like: StartPlan | undefined;
  readonly forWorkers: boolean;
}

async function planRun(
  shell: Shell,
  holdfast: Holdfast,
  request: RunRequest,
  { settings, input, like, forWorkers }: PlanInput,
): Promise<StartPlan> {
  const { work, workflow, agent, limit, mode, seed } = request;
  const common = { work, agent, limit, mode, again: input.on("again"), ...(seed === null ? {} : { seed }) };
  const known = like === undefined ? {} : { like };
  const how = { dryRun: input.on("dry-run"), wait: input.on("wait"), forWorkers, ...known };
  if (!isBuiltIn(workflow)) {
    const file = resolve(shell.cwd, workflow);
    if (!existsSync(file))
      throw usageError(
        `There is no workflow and no file ${describeValue(workflow)}`,
        choiceHint(workflow, [...BUILT_IN_NAMES, "the path of a file"]),
      );
    const id = shell.env[RUN_ID_VARIABLE];
    const named = {
      labels: { "workflow-file": await workflowLabel(holdfast, file) },
      ...(id === undefined ? {} : { id }),
    };
    const custom = await loadConsented(shell, file, "typed");
    return await holdfast.work.plan({ ...common, workflow: custom, ...named }, how);
  }
  const options = await FILE_OPTIONS[workflow]({ shell, request, settings, input });
  const { baseBranch } = request.options;
  const base = typeof baseBranch === "string" ? { base: baseBranch } : {};
  return await holdfast.work.plan({ ...common, workflow, options: { ...request.options, ...options }, ...base }, how);
}

/** The options of a workflow that are in files, read once when the run starts. */
const FILE_OPTIONS: Readonly<
  Record<
    BuiltInName,
    (given: {
      readonly shell: Shell;
      readonly request: RunRequest;
      readonly settings: ImplSettings;
      readonly input: RunInput;
    }) => Promise<JsonObject>
  >
> = {
  async impl({ shell, settings, input }) {
    const path = input.text("plan");
    const plan = path === undefined ? null : { path, text: readPlan(resolve(shell.cwd, path)) };
    return { prompts: await promptsOf(shell.consent, "impl", settings), plan };
  },
  async crunch({ shell, request }) {
    const settings = withoutAgents(await shell.consent.crunchSettings(), request.agentTyped);
    return { settings, prompts: await promptsOf(shell.consent, "crunch") };
  },
  async ralph({ shell, request: { work }, input }) {
    const files = await readRalphFiles(input, (path) => readGiven(resolve(shell.cwd, path)));
    const task = work.kind === "task" ? work.text : work.kind === "issue" ? `Resolve issue #${work.number}` : "";
    return { ...files, task, prompts: await promptsOf(shell.consent, "ralph") };
  },
};

/** --agent replaces the agents that `agents.yaml` names; --model still chooses one by role or name. */
function withoutAgents(settings: CrunchSettings, agentTyped: boolean): CrunchSettings {
  if (!agentTyped) return settings;
  const agents = Object.entries(settings.agents).map(([name, profile]) => [name, { ...profile, agent: null }] as const);
  return { ...settings, agents: Object.fromEntries(agents) };
}

const PLAN_BYTES = 1024 * 1024;

/** The text is stored with the run, so a later edit of the file changes nothing. */
function readPlan(path: string): string {
  const file = readRegularFile({ path, maxBytes: PLAN_BYTES });
  if (file.kind === "read" && isUtf8(file.bytes)) return Buffer.from(file.bytes).toString("utf8");
  const why = file.kind === "refused" ? file.why : file.kind === "absent" ? "there is no such file" : "it is not UTF-8";
  throw usageError(`The plan ${path} cannot be read: ${why}`, "Give the path of a text file of at most 1 MiB.");
}

async function readGiven(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (cause) {
    throw new HoldfastError({
      code: "USAGE",
      message: `${path} cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`,
      hint: "Give the path of a text file that you may read.",
      cause,
    });
  }
}

/** The unfinished run of the same task text, found by its id, which is derived from the text. */
async function openTask(
  holdfast: Holdfast,
  plan: StartPlan,
  { usesHeld }: Pick<RunCommand, "usesHeld">,
): Promise<RunSummary | undefined> {
  if (plan.work.kind !== "task" || plan.earlier !== null) return undefined;
  const run = await holdfast.store.getRun(plan.id);
  if (run === undefined || run.checkpoints === 0) return undefined;
  const holder = await (await holdfast.run(run.id)).holder();
  if (holder?.alive === "alive" && !usesHeld) throw runHeldError(run.id, holder.lease);
  return run;
}

/** A second run of an issue always mentions the first. */
function sayEarlier(shell: Shell, plan: StartPlan): void {
  const [, stem, count] = /^(.+?)-(\d+)$/.exec(plan.id) ?? [];
  if (plan.work.kind === "issue" && stem === `issue-${plan.work.number}` && count !== undefined)
    shell.notify(`Earlier runs of issue ${plan.work.number} have ended; this is a new run, ${escapeText(plan.id)}.`);
}

/** The plan as data, without the workflow's functions. */
function planDocument({ workflow: _workflow, ...plan }: StartPlan): object {
  return plan;
}

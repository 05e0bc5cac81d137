/** The `run` command: starts a run of a workflow on an issue or a task. */
import { isUtf8 } from "node:buffer";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { splitAgent } from "@holdfast/core/agent";
import type { JsonObject } from "@holdfast/core/json";
import type { RunSummary, Work } from "@holdfast/core/run";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { readRegularFile } from "@holdfast/platform/files";
import { type BuiltInName, DEFAULT_WORKFLOW, filesTasks, isBuiltIn } from "@holdfast/workflows/built-in";
import type { CrunchSettings } from "@holdfast/workflows/crunch/settings";
import { guessSetup, readerOf } from "../../config/detect-setup.ts";
import type { ImplSettings, WorkSettings } from "../../config/work-settings.ts";
import type { Holdfast } from "../../holdfast.ts";
import type { StartPlan } from "../../plan-start.ts";
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
import { escapeText } from "../output/text.ts";
import { readSlot } from "../parse-arguments.ts";
import { loadConsented, rememberTyped } from "../run-consent.ts";
import { runSpec as spec } from "../run-flags.ts";
import {
  type RunRequest,
  deprecatedFlags,
  promptsOf,
  readLimits,
  readRalphFiles,
  readRequest,
  readWorkflowLimits,
} from "../run-options.ts";
import { planText, planUses, rolesOf, usesText } from "../run-plan.ts";
import { resumeRun, waitsUntil } from "./resume.ts";

type RunInput = Input<(typeof spec)["flags"]>;

export { spec };

export async function run(shell: Shell, input: RunInput): Promise<Exit> {
  const stated = await shell.consent.stated();
  if (!input.on("dry-run")) await requireStart(shell, input, stated.settings.work);
  // A dry run shows what the file sets, and uses none of it.
  const { settings } = input.on("dry-run") ? stated : await shell.config();
  for (const warning of deprecatedFlags(input)) shell.notify(`${paint(shell.talk, "yellow", "warning:")} ${warning}`);
  const request = readRequest(input, settings.work);
  const holdfast = await shell.open({
    create: !input.on("dry-run"),
    pretend: input.on("dry-run"),
    writes: !input.on("dry-run"),
  });
  const files = filesTasks(request.workflow) && !input.on("dry-run");
  // `start` removes the announcement when it holds the lease; every other return removes it here.
  using starting = input.on("dry-run") ? null : holdfast.work.announce(request);
  const planFor = (of: Work): Promise<StartPlan> =>
    unlessAborted(
      shell.signal,
      planRun(shell, holdfast, { ...request, work: of }, { settings: settings.work.impl, input }),
    );
  // A start that the plan refuses files no issue: others would see it, and it cannot be taken back.
  const check = (): Promise<unknown> => planFor(request.work);
  const work = files ? await unlessAborted(shell.signal, fileTask(holdfast, request, check)) : request.work;
  const loopSlot = readSlot(input);
  const session = request.sessionMs === undefined ? {} : { sessionMs: request.sessionMs };
  const limits = readWorkflowLimits({
    text: (name) => input.text(name) ?? (name === "max-iterations" ? input.text("max-iter") : undefined),
    // The check is part of the run's identity: another one names another run.
    texts: () => [],
  });
  const resumeUnfinished = async (run: string): Promise<Exit> => {
    starting?.remove();
    return await resumeRun(shell, holdfast, {
      run,
      limit: readLimits(input),
      limits,
      ...session,
      dryRun: input.on("dry-run"),
      wait: input.on("wait"),
      ...loopSlot,
      detach: input.on("detach"),
    });
  };
  const ofIssue = await openRun(holdfast, work, input.on("resume"));
  if (ofIssue !== undefined && input.on("resume")) return await resumeUnfinished(ofIssue.id);
  const plan = await planFor(work);
  const raised = input.on("resume") && Object.keys(limits).length > 0 && plan.earlier?.state.kind === "failed";
  const open = ofIssue ?? (raised ? plan.earlier : await openTask(holdfast, plan));
  if (open !== undefined && input.on("resume")) return await resumeUnfinished(open.id);
  if (plan.earlier !== null && open === undefined) {
    if (plan.earlier.state.kind === "done") await refuseOtherTarget(holdfast, plan.earlier, request);
    return await showEarlier(shell, holdfast, plan, input.on("dry-run"));
  }
  if (input.on("dry-run")) {
    const uses = await planUses(shell, await shell.consent.stated(), plan);
    shell.print({
      json: () => ({ kind: "plan", plan: { ...planDocument(plan), uses } }),
      text: (page) => planText(plan, page) + usesText(uses, page),
    });
    if (open !== undefined) shell.notify(`Run ${open.id} is unfinished: ${shell.talk.program} resume ${open.id}`);
    return "done";
  }
  if (open !== undefined) throw runUnfinishedError(await holdfast.runWithStatus(open.id));
  sayEarlier(shell, plan);
  if (plan.place !== null && settings.workspace.setup === null) sayMissingSetup(shell);
  if (input.on("detach")) {
    starting?.remove();
    return await executeDetached(shell, holdfast, { run: plan.id, workflow: request.workflow, work });
  }
  // The user stopped the command while it planned: nothing is started.
  shell.signal.throwIfAborted();
  const start = (): Promise<Exit> =>
    executeRun(shell, holdfast, (listen) =>
      holdfast.work.start(plan, { listen, signal: shell.signal, starting, ...session, ...loopSlot }),
    );
  const exit = input.on("wait") ? await startWithSpace(shell, () => holdfast.hasRoom(plan.id), start) : await start();
  const waits = exit === "waiting" && input.on("wait") && (await waitsUntil(holdfast, plan.id)) !== null;
  if (!waits) return exit;
  return await resumeRun(shell, holdfast, { run: plan.id, dryRun: false, wait: true, ...session, ...loopSlot });
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
async function requireStart(shell: Shell, input: RunInput, settings: WorkSettings): Promise<void> {
  const { REPLACED_BY } = await import("../../config/consent.ts");
  const { agentFileItems } = await import("../../config/agent-files.ts");
  const typed: { on(flag: string): boolean } = input;
  const replaced = Object.entries(REPLACED_BY).flatMap(([key, flags]) =>
    flags.some((flag) => typed.on(flag)) ? [key] : [],
  );
  const workflow = input.text("workflow") ?? DEFAULT_WORKFLOW;
  const uses = [...USES_OF.works, "start" as const, ...(isBuiltIn(workflow) ? [workflow] : [])];
  const agents = await agentsOf(shell, readRequest(input, settings), settings);
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
  const { workflow: name, agent, options } = request;
  const team = name === "crunch" ? withoutAgents(await shell.consent.crunchSettings(), request.agentTyped) : null;
  const { provider = null, model = null } = agent === null ? {} : splitAgent(agent);
  const inputs = team === null ? options : { ...options, settings: { agents: team.agents } };
  const plan = { config: { agent: provider, model, inputs }, shape: { name } };
  return (await rolesOf(plan, settings.errors.fallback.agents)).map((role) => role.agent);
}

/** Files a task as an issue first, if there is a forge. The same text yields the same issue, also after a crash. */
async function fileTask(
  holdfast: Holdfast,
  { work, options }: RunRequest,
  check: () => Promise<unknown>,
): Promise<Work> {
  if (work.kind !== "task") return work;
  const labels = typeof options["type"] === "string" ? [`type:${options["type"]}`] : [];
  return (await holdfast.work.fileTask(work.text, labels, check)) ?? work;
}

/** The unfinished run of this work. Throws an error that names the holder if another process works on it. */
async function openRun(holdfast: Holdfast, work: Work, resume: boolean): Promise<RunSummary | undefined> {
  if (work.kind !== "issue") return undefined;
  const found = await holdfast.work.findRunFor(work.number);
  switch (found.kind) {
    case "none":
      // The pre-flight reports --resume of an ended run: done, or failed with its reason.
      return resume ? found.ended[0] : undefined;
    case "one": {
      const holder = await (await holdfast.run(found.run.id)).holder();
      if (holder?.alive === "alive") throw runHeldError(found.run.id, holder.lease);
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

async function planRun(
  shell: Shell,
  holdfast: Holdfast,
  request: RunRequest,
  { settings, input }: { readonly settings: ImplSettings; readonly input: RunInput },
): Promise<StartPlan> {
  const { work, workflow, agent, limit, mode, seed } = request;
  const common = { work, agent, limit, mode, again: input.on("again"), ...(seed === null ? {} : { seed }) };
  if (!isBuiltIn(workflow)) {
    const file = resolve(shell.cwd, workflow);
    const id = shell.env[RUN_ID_VARIABLE];
    const named = { labels: { "workflow-file": file }, ...(id === undefined ? {} : { id }) };
    return await holdfast.work.plan({ ...common, workflow: await loadConsented(shell, file, "typed"), ...named });
  }
  const { options, namesAgents } = await FILE_OPTIONS[workflow]({ shell, request, settings, input });
  if (agent === null && !namesAgents) throw noAgent();
  const { baseBranch } = request.options;
  return await holdfast.work.plan({
    ...common,
    workflow,
    options: { ...request.options, ...options },
    ...(typeof baseBranch === "string" ? { base: baseBranch } : {}),
  });
}

interface FileOptions {
  readonly options: JsonObject;
  /** Whether options and files name an agent for every role. */
  readonly namesAgents: boolean;
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
    }) => Promise<FileOptions>
  >
> = {
  async impl({ shell, request, settings, input }) {
    const path = input.text("plan");
    const plan = path === undefined ? null : { path, text: readPlan(resolve(shell.cwd, path)) };
    const options = { prompts: await promptsOf(shell.consent, "impl", settings), plan };
    return { options, namesAgents: request.options["implModel"] !== null };
  },
  async crunch({ shell, request }) {
    const settings = withoutAgents(await shell.consent.crunchSettings(), request.agentTyped);
    const prompts = await promptsOf(shell.consent, "crunch");
    return {
      options: { settings, prompts },
      namesAgents: Object.values(settings.agents).every(({ agent }) => agent !== null),
    };
  },
  async ralph({ shell, request: { work }, input }) {
    const files = await readRalphFiles(input, (path) => readGiven(resolve(shell.cwd, path)));
    const task = work.kind === "task" ? work.text : work.kind === "issue" ? `Resolve issue #${work.number}` : "";
    return { options: { ...files, task, prompts: await promptsOf(shell.consent, "ralph") }, namesAgents: false };
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
async function openTask(holdfast: Holdfast, plan: StartPlan): Promise<RunSummary | undefined> {
  if (plan.work.kind !== "task" || plan.earlier !== null) return undefined;
  const run = await holdfast.store.getRun(plan.id);
  if (run === undefined || run.checkpoints === 0) return undefined;
  const holder = await (await holdfast.run(run.id)).holder();
  if (holder?.alive === "alive") throw runHeldError(run.id, holder.lease);
  return run;
}

function noAgent(): HoldfastError {
  return usageError(
    "No agent is configured",
    "Name one with --agent (command:./my-agent), or as `agent:` in holdfast.config.yaml. `holdfast demo` needs none.",
  );
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

import type { Holdfast, PlaceParams, RollbackChoice } from "../../../app.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Budget } from "../../../core/position/position.ts";
import type { Answers } from "../../../core/resume/resume.ts";
import { carryDetached } from "../../carry-detached.ts";
import { carryRun } from "../../carry-run.ts";
import type { Shell } from "../../command.ts";
import { unlessAborted } from "../../interrupts.ts";
import type { Page } from "../../output/page.ts";
import { rollbackText } from "../../rollback-text.ts";
import { planUses, usesText } from "../run/plan-uses.ts";
import { readPrompts } from "../run/read-prompts.ts";
import { importedItems, rememberTyped, workflowFile, worktreeItems } from "../../run-consent.ts";
import { readAdoptedOptions } from "../run/read-request.ts";
import type { ResumeFlags } from "../run/outcome-view.ts";
import { heldError } from "../run/run-refusals.ts";
import { preflightText } from "./preflight-view.ts";
import { verdictText } from "./verdict-text.ts";
import { parkedUntil, waitForTime } from "./wait-for-time.ts";

export interface TakeUp {
  readonly run: string;
  readonly answers?: Answers;
  readonly from?: number;
  /** How `from` was chosen, when it was chosen by reading the failure. */
  readonly rollback?: RollbackChoice;
  readonly force?: boolean;
  readonly limit: Partial<Budget["limit"]>;
  /** Of this session; null: as long as it takes. */
  readonly sessionMs: number | null;
  readonly dryRun: boolean;
  /** For the time that it is parked until, as often as it is. */
  readonly wait?: boolean;
  readonly workflow?: string;
  /** Another agent than the one it had. */
  readonly agent?: string;
  readonly place?: PlaceParams;
  readonly priority?: number;
  /** Let a process of its own carry it. */
  readonly detach?: boolean;
}

/** The pre-flight, printed; then, unless it stands in the way, the run goes on. Who waits does so again whenever it parks until a time. */
export async function takeUpRun(shell: Shell, holdfast: Holdfast, params: TakeUp): Promise<Exit> {
  const { run, wait = false, dryRun, sessionMs, workflow, place } = params;
  let exit = await takeUpOnce(shell, holdfast, params);
  if (!wait || dryRun) return exit;
  while (exit === "parked" && (await parkedUntil(holdfast, run)) !== null) {
    const named = { ...(workflow === undefined ? {} : { workflow }), ...(place === undefined ? {} : { place }) };
    const again = { run, limit: {}, sessionMs, dryRun, wait, ...named };
    exit = await takeUpOnce(shell, holdfast, again);
  }
  return exit;
}

async function takeUpOnce(shell: Shell, holdfast: Holdfast, params: TakeUp): Promise<Exit> {
  const { run, answers, from, force, limit } = params;
  const holder = await (await holdfast.run(run)).holder();
  if (holder?.alive === "alive") {
    const back = !params.dryRun && (await holdfast.work.takeOrderBack(run, "pause"));
    if (!back) throw heldError(run, holder.lease);
    shell.print({ json: () => ({ run, takenBack: "pause" }), text: () => `${run} goes on: it had not paused yet.\n` });
    return "done";
  }
  const waits = params.wait === true && !params.dryRun;
  const wakes = waits ? await waitForTime(shell, holdfast, run) : null;
  if (!params.dryRun) await requireImported(shell, holdfast, params);
  const summary = await (await holdfast.run(run)).summary();
  using starting = params.dryRun
    ? null
    : holdfast.work.announce({ run, workflow: summary.workflow, work: summary.work });
  const { workflow } = await workflowFile(shell, holdfast, { run, named: params.workflow });
  const { work } = (await (params.dryRun ? shell.consent.stated() : shell.config())).settings;
  const request = {
    run,
    limit,
    ...(params.sessionMs === null ? {} : { sessionMs: params.sessionMs }),
    signal: shell.signal,
    // A run that was imported says nothing of these; every other has its own.
    adopt: {
      agent: work.agent,
      options: { ...readAdoptedOptions(params.agent, work), prompts: await readPrompts(work.impl) },
    },
    ...(params.agent === undefined ? {} : { agent: params.agent }),
    ...(workflow === undefined ? {} : { workflow }),
    ...(wakes === null ? {} : { wakes }),
    ...(answers === undefined ? {} : { answers }),
    ...(from === undefined ? {} : { from }),
    ...(force === undefined ? {} : { force }),
    ...(params.place === undefined ? {} : { place: params.place }),
    ...(params.priority === undefined ? {} : { priority: params.priority }),
  };
  const planned = await unlessAborted(shell.signal, holdfast.work.preflight(request));
  if (!params.dryRun) await requireWorktree(shell, holdfast, params, planned);
  const flags = await flagsOf(holdfast, params);
  const { plan, findings, notes } = planned;
  const { rollback } = params;
  const told = (page: Page): string => (rollback === undefined ? "" : rollbackText(run, rollback, page));
  if (params.dryRun) {
    const { forge } = await holdfast.work.parts();
    const resumed = { config: planned.current.config, shape: { name: planned.run.workflow }, forge };
    // Nothing is executed for a run that has ended.
    const uses = planned.checkpoint === null ? null : await planUses(shell, await shell.consent.stated(), resumed);
    const more = rollback === undefined ? {} : { rollback };
    shell.print({
      json: () => ({ run, plan, findings, notes, verdict: plan.kind, uses, ...more }),
      text: (page) =>
        told(page) +
        preflightText(planned, page) +
        verdictText(`${run}${backTo(params)}${flags.untouched}`, plan, page) +
        (uses === null ? "" : usesText(uses, page)),
    });
    return "done";
  }
  if (params.detach === true) {
    starting?.remove();
    return await carryDetached(shell, holdfast, { run, workflow: summary.workflow, work: summary.work });
  }
  if (shell.json && rollback !== undefined)
    shell.write(`${JSON.stringify({ run, at: new Date().toISOString(), kind: "rollback", rollback })}\n`);
  if (shell.json && findings.length > 0)
    shell.write(`${JSON.stringify({ run, at: new Date().toISOString(), kind: "findings", findings })}\n`);
  for (const text of shell.json ? notes : [])
    shell.write(`${JSON.stringify({ run, at: new Date().toISOString(), kind: "note", text })}\n`);
  if (!shell.json && !shell.quiet) shell.write(told(shell.page) + preflightText(planned, shell.page));
  return await carryRun(
    shell,
    holdfast,
    (listen) => holdfast.work.resume({ ...request, listen, starting }, planned),
    flags,
  );
}

/** What was chosen now is named, so that the same is done whatever happens meanwhile. */
function backTo({ run, from, force }: TakeUp): string {
  return from === undefined ? "" : ` --from ${run}@${from}${force === true ? " --force" : ""}`;
}

/**
 * A run that was imported has the commands, agents and prompts of its document, and before its first resume also those of the config.
 * The user typed neither, so both need consent. Every other run keeps the settings that it began with.
 */
async function requireImported(shell: Shell, holdfast: Holdfast, { run, agent }: TakeUp): Promise<void> {
  const { labels, workflow } = await (await holdfast.run(run)).summary();
  const [last] = labels["import"] === undefined ? [] : await holdfast.store.listCheckpoints({ run, limit: 1 });
  if (last === undefined) return;
  const replaced = new Set(agent === undefined ? [] : ["agent", "models.impl", "models.review"]);
  const begins =
    last.trigger !== "import" ? [] : workflow === "impl" ? (["start", "impl"] as const) : (["start"] as const);
  await shell.consent.require({ uses: begins, replaced, more: await importedItems(holdfast, run), run });
}

/** Its worktree may hold other files than the checkout: of the branch that it began from, of a rebase, or of the agent. */
async function requireWorktree(
  shell: Shell,
  holdfast: Holdfast,
  { run, agent }: TakeUp,
  planned: Awaited<ReturnType<Holdfast["work"]["preflight"]>>,
): Promise<void> {
  // Nothing is executed for a run that has ended.
  if (planned.checkpoint === null) return;
  const { config } = planned.current;
  if (agent !== undefined) await rememberTyped(shell, [agent]);
  const found = await worktreeItems(shell, holdfast, { run, workflow: planned.run.workflow, config });
  await shell.consent.require({ uses: [], run, ...found });
}

/** A run that was imported is of no workflow of Holdfast's, and remembers none; an agent is remembered once it has begun. */
async function flagsOf(holdfast: Holdfast, { run, workflow, agent }: TakeUp): Promise<ResumeFlags> {
  const { labels } = await (await holdfast.run(run)).summary();
  const always = workflow === undefined || labels["workflow-file"] === workflow ? "" : ` --workflow ${workflow}`;
  return { always, untouched: `${always}${agent === undefined ? "" : ` --agent ${agent}`}` };
}

/** The `worker` command: continues crashed and waiting runs of the registered repositories by itself. */
import { resolve } from "node:path";
import { mainWorktreeRoot } from "@holdfast/core/workspace";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { withoutPassword } from "@holdfast/postgres/store-url";
import { type Settings, openParamsOf } from "../../config/effective-config.ts";
import type { FleetRepository } from "../../worker/fleet-worker.ts";
import { readWorkerEnv } from "../../worker/manage-service.ts";
import { type WorkerEvent, levelOf, runWorker } from "../../worker/run-worker.ts";
import {
  type WorkerActivity,
  newActivity,
  parseHealthAddress,
  serveHealth,
  takeSnapshot,
} from "../../worker/worker-health.ts";
import { type WorkerRepository, openWorkerState } from "../../worker/worker-state.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import { USES_OF, createConsent } from "../consent.ts";
import { EXITS, type Exit } from "../exit.ts";
import type { Page } from "../output/page.ts";
import { countText } from "../output/quantities.ts";
import { escapeText, momentText, wrapProse } from "../output/text.ts";
import { reportDatabase } from "../report-remotes.ts";
import { parseCount } from "../parse-arguments.ts";

export const spec = {
  name: "worker",
  summary: "continue crashed and waiting runs by itself",
  details: [
    "Looks at the runs of the repositories that `holdfast service install` has added, and continues those whose process died, those that SIGTERM ended (such as a shutdown), and those whose wait for quota, provider, forge, CI or disk space is over. Each run gets its own process, which does what `holdfast resume RUN` does, with the same consent checks.",
    "It never answers a question and never raises a limit. A run that you stopped or paused, or that has ended, stays as it is. At most `loops.max` runs of a repository work at once. A run that fails again is tried after a growing delay, and after six failures not any more.",
    "Ctrl+C and SIGTERM save the runs that it started; the next worker continues them. Only one worker of a user looks after the list at a time, and one with --join. docs/service.md describes the variables that a service has.",
    "With --join it instead executes the runs that `holdfast submit` has queued, at most --slots at a time, together with all other workers of the queue. It takes the runs for which it has the labels: its agents that are ready, the workflows that it knows, its clones, and --label. If it dies, others continue its runs. On Ctrl+C and SIGTERM it takes nothing new, its runs are saved, and others continue them at once. docs/team.md explains how to set up several machines.",
    "With --health it answers GET /health over HTTP with its slots, heartbeat and problems: 200, or 503 while it cannot read a store or its queue. docs/operations.md explains the answer.",
  ],
  operands: [],
  consent: "reads",
  flags: {
    once: { type: "boolean", about: "look once, continue what is due, and exit when these runs have stopped" },
    here: { type: "boolean", about: "look after the repository of this directory only, whether or not it was added" },
    repository: {
      type: "text",
      value: "DIR",
      about: "look after this repository, whether or not it was added; repeatable",
      completes: "directory",
    },
    join: { type: "boolean", about: "execute submitted runs, together with the other workers of the queue" },
    slots: { type: "text", value: "N", about: "with --join: runs at once (default: loops.max of the config, or 1)" },
    label: { type: "text", value: "LABEL", about: "with --join: a label for `submit --needs`; repeatable" },
    health: {
      type: "text",
      value: "[HOST:]PORT",
      about: "answer GET /health there; without HOST on this machine only",
    },
  },
  examples: [
    { line: "holdfast worker", about: "look after all added repositories until Ctrl+C" },
    { line: "holdfast worker --here", about: "look after this repository only, in a container" },
    { line: "holdfast worker --join --slots 3 --repository ~/shop", about: "execute queued runs, three at a time" },
    { line: "holdfast worker --health 8080", about: "tell a service manager whether the worker works: GET /health" },
  ],
  windsDown: true,
  json: 'One line for each change: {"kind": "start" or "skip", "repository", "run", "why"}, {"kind": "wait", "repository", "run", "why", "until"}, {"kind": "ended", "repository", "run", "exit"} or {"kind": "repository", "repository", "problem"}; with --join also {"kind": "joined", "worker", "dispatch", "slots", "labels"}, {"kind": "problem", "problem"}, {"kind": "draining", "runs"} and {"kind": "left"}; with --health {"kind": "health", "url"}. Each line also has "at" (ISO 8601) and "level" ("info", "warn" or "error").',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  if (input.on("join")) return await join(shell, input);
  refuseWithoutJoin(input);
  const env = readWorkerEnv(shell.env);
  const state = openWorkerState(shell.env);
  const named = await namedRepositories(shell, input);
  const repositories = named.length === 0 ? null : named;
  const isIdle = repositories === null && state.repositories().length === 0;
  if (isIdle && input.on("once"))
    throw new HoldfastError({
      code: "NOTHING_TO_RESUME",
      message: "The worker looks after no repository",
      hint: "Run `holdfast service install` in a repository, or `holdfast worker --once --here`.",
    });
  const activity = newActivity();
  const { dispatchTimings } = await import("../../worker/open-dispatch.ts");
  const lookMs = dispatchTimings(env).reconcileMs;
  using _lock = state.lock("own");
  await using _shown = await showActivity(shell, input, activity, () => takeSnapshot(activity, lookMs, null));
  shell.notify(startText(repositories ?? state.repositories(), input.on("once"), shell.talk));
  await runWorker({
    state,
    env,
    page: shell.talk,
    repositories,
    once: input.on("once"),
    lookMs,
    activity,
    signal: shell.signal,
    inherits: !shell.json,
    emit: (event) => write(shell, event),
  });
  return shell.signal.aborted ? "interrupted" : "done";
}

function write(shell: Shell, event: WorkerEvent): void {
  const line = (): object => ({ at: new Date().toISOString(), level: levelOf(event), ...event });
  shell.write(shell.json ? `${JSON.stringify(line())}\n` : wrapProse(eventText(event, shell.page), shell.page));
}

/** Shows the activity to service managers and in metrics, until it is disposed. */
async function showActivity(
  shell: Shell,
  input: Input<(typeof spec)["flags"]>,
  activity: WorkerActivity,
  snapshot: Parameters<typeof serveHealth>[1],
): Promise<AsyncDisposable> {
  const address = input.text("health");
  const endpoint = address === undefined ? null : await serveHealth(parseHealthAddress(address), snapshot);
  if (endpoint !== null) write(shell, { kind: "health", url: endpoint.url });
  const { flushMetrics, observeWorker } = await import("../../telemetry.ts");
  observeWorker(() => activity);
  return {
    async [Symbol.asyncDispose]() {
      await endpoint?.[Symbol.asyncDispose]();
      await flushMetrics();
    },
  };
}

/** Joins the one queue of these repositories. Their stores stay open until the worker has left. */
async function join(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  if (input.on("once"))
    throw usageError("--once looks once, and --join stays in the queue", "Leave out one of the two.");
  const slots = readSlots(input.text("slots"));
  const [
    { createFleetProbe, createProblemReporter, runFleetWorker },
    { openDispatch, dispatchTimings, ownLabels },
    { ownVersion },
  ] = await Promise.all([
    import("../../worker/fleet-worker.ts"),
    import("../../worker/open-dispatch.ts"),
    import("../../interop/export.ts"),
  ]);
  const env = readWorkerEnv(shell.env);
  // The PostgreSQL driver reads PGPASSWORD and the like from the environment of the process.
  for (const [name, value] of Object.entries(env)) process.env[name] ??= value;
  const state = openWorkerState(shell.env);
  const named = await namedRepositories(shell, input);
  const listed = named.length === 0 ? state.repositories() : [];
  // One worker of a user has the list. It has as many slots as it needs.
  using _lock = listed.length === 0 ? null : state.lock("joined");
  const wanted = [named, listed].find(({ length }) => length > 0) ?? [await repositoryAt(shell, shell.cwd)];
  const { reconcileMs } = dispatchTimings(env);
  const activity = newActivity();
  let probe: Parameters<typeof takeSnapshot>[2] = null;
  await using _shown = await showActivity(shell, input, activity, () => takeSnapshot(activity, reconcileMs, probe));
  await using opened = new OpenedRepositories();
  for (const repository of wanted) await opened.add(repository, { shell, env });
  const { place, settings } = opened.queue();
  const emit = (event: WorkerEvent): void => write(shell, event);
  const problems = createProblemReporter(emit);
  const labels = await ownLabels(
    opened.repositories.map(({ holdfast }) => holdfast.store.id),
    input.texts("label"),
  );
  shell.notify(startText(wanted, false, shell.talk));
  const dispatch = await openDispatch(place, {
    limits: settings.fleet.limits,
    env,
    onProblem: problems.report,
    onWait: reportDatabase(shell),
  });
  try {
    const fleet = { dispatch, place: withoutPassword(place), repositories: opened.repositories };
    probe = createFleetProbe(fleet);
    activity.slots = slots ?? settings.work.loops.max ?? 1;
    await runFleetWorker({
      ...fleet,
      labels,
      slots: activity.slots,
      activity,
      version: ownVersion(),
      reconcileMs,
      env,
      signal: shell.signal,
      emit,
      inherits: !shell.json,
    });
  } finally {
    await dispatch.close();
  }
  return shell.signal.aborted ? "interrupted" : "done";
}

export function refuseWithoutJoin(input: Pick<Input<(typeof spec)["flags"]>, "texts">): void {
  const only = (["slots", "label"] as const).find((name) => input.texts(name).length > 0);
  if (only !== undefined) throw usageError(`--${only} is for a worker that joins a queue`, "Add --join.");
}

/** Those of --repository and --here. */
async function namedRepositories(
  shell: Shell,
  input: Input<(typeof spec)["flags"]>,
): Promise<readonly WorkerRepository[]> {
  const directories = [...(input.on("here") ? [shell.cwd] : []), ...input.texts("repository")];
  const found = new Map<string, WorkerRepository>();
  for (const directory of directories) {
    const repository = await repositoryAt(shell, resolve(shell.cwd, directory));
    found.set(repository.root, repository);
  }
  return [...found.values()];
}

export function readSlots(text: string | undefined): number | null {
  if (text === undefined) return null;
  const count = parseCount("slots", text);
  if (count > 0) return count;
  throw usageError("--slots 0 would execute nothing", "Give a number of 1 or more.");
}

class OpenedRepositories {
  readonly #opened: { readonly repository: FleetRepository; readonly place: string; readonly settings: Settings }[] =
    [];

  /** Asks for consent as `resume` would, so that a run does not fail later. */
  async add(
    { root, store }: WorkerRepository,
    { shell, env }: { readonly shell: Shell; readonly env: Shell["env"] },
  ): Promise<void> {
    const consent = createConsent({
      cwd: root,
      env,
      storeFlag: store ?? undefined,
      noConfig: false,
      trustFlag: false,
      lenient: false,
      notify: (text) => shell.notify(text),
      isQuiet: shell.quiet || shell.json,
      warn: (text) => shell.notify(text),
      page: shell.talk,
      confirm: (question) => shell.confirm(question),
    });
    await consent.require({ uses: USES_OF.works });
    const { config } = await consent.settings();
    const { openHoldfast } = await import("../../open.ts");
    const { dispatchPlace } = await import("../../worker/open-dispatch.ts");
    const holdfast = await openHoldfast({ cwd: root, ...openParamsOf(config) });
    const place = dispatchPlace(config.settings, holdfast.store.location);
    this.#opened.push({ repository: { root, store, holdfast }, place, settings: config.settings });
  }

  get repositories(): readonly FleetRepository[] {
    return this.#opened.map(({ repository }) => repository);
  }

  /** Throws USAGE unless it is the same for all. */
  queue(): { readonly place: string; readonly settings: Settings } {
    const [first, ...others] = this.#opened;
    if (first === undefined) throw new TypeError("no repository was opened");
    const other = others.find(({ place }) => place !== first.place);
    if (other === undefined) return first;
    throw usageError(
      `${first.repository.root} and ${other.repository.root} have different queues: ${withoutPassword(first.place)} and ${withoutPassword(other.place)}`,
      "Name one place for both with HOLDFAST_DISPATCH or `fleet.dispatch`, or start a worker with --here in each.",
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { repository } of this.#opened) await repository.holdfast[Symbol.asyncDispose]();
  }
}

/** What the worker looks after, and how to end it: it prints nothing while no run is due. */
function startText(repositories: readonly WorkerRepository[], once: boolean, page: Page): string {
  const roots = repositories.map(({ root }) => `  ${escapeText(root)}\n`).join("");
  const watched =
    roots === ""
      ? `No repository was added yet: run ${page.program} service install in one.\n`
      : `Looking after the runs of:\n${roots}`;
  return once ? watched : `${watched}Ctrl+C ends the worker and saves the runs that it started.\n`;
}

function eventText(event: WorkerEvent, page: Page): string {
  switch (event.kind) {
    case "repository":
      return `Cannot look at ${escapeText(event.repository)}: ${escapeText(event.problem ?? "")}\n`;
    case "start":
      return `Continuing ${nameText(event)}: ${escapeText(event.why)}\n`;
    case "wait": {
      const until = event.until === null ? "" : ` until ${momentText(event.until, page)}`;
      return `Waiting with ${nameText(event)}${until}: ${escapeText(event.why)}\n`;
    }
    case "skip":
      return `Leaving ${nameText(event)}: ${escapeText(event.why)}\n`;
    case "ended":
      return `Stopped ${nameText(event)}: ${event.exit === null ? "its process was killed" : EXITS[event.exit].about}\n`;
    case "joined": {
      const labels = event.labels.filter((label) => !label.startsWith("store:"));
      const hasAgent = labels.some((label) => label.startsWith("agent:"));
      return `Joined the queue in ${escapeText(event.dispatch)} as ${event.worker}, slots: ${event.slots}, labels: ${labels.join(" ")}\n${hasAgent ? "" : `No agent is ready here, so runs that need one go to other workers. To see why: ${page.program} agents\n`}`;
    }
    case "problem":
      return `Problem, tried again: ${escapeText(event.problem)}\n`;
    case "draining":
      return event.runs === 0 ? "Leaving the queue\n" : `Leaving the queue; saving ${countText(event.runs, "run")}\n`;
    case "left":
      return "Left the queue\n";
    case "health":
      return `Health: ${event.url}\n`;
  }
}

function nameText({ run, repository }: { readonly run: string; readonly repository: string }): string {
  return `${run} in ${escapeText(repository)}`;
}

/** The repository of a directory, by its main worktree: the worktree of a run disappears with the run. */
export async function repositoryAt(shell: Shell, directory: string): Promise<WorkerRepository> {
  const root = await mainRootAt(directory);
  const { config } = await shell.consent.settings();
  const { store } = config.settings;
  const origin = config.entries.find(({ key }) => key === "store")?.origin.kind;
  const isNamed = store !== null && (origin === "flag" || origin === "environment");
  if (isNamed && withoutPassword(store) !== store)
    throw usageError(
      "The URL of the store has a password, and the worker keeps the URL in a file",
      "Remove it from the URL: put it into ~/.pgpass, or set PGPASSWORD in ~/.config/holdfast/worker.env.",
    );
  return { root, store: isNamed ? store : null };
}

/** The root of the main worktree of the repository at `directory`. */
export async function mainRootAt(directory: string): Promise<string> {
  const { openGitWorkspaces } = await import("@holdfast/git/workspaces");
  const workspaces = await openGitWorkspaces(directory);
  try {
    return await mainWorktreeRoot(workspaces, directory);
  } finally {
    await workspaces.close();
  }
}

/** The `worker` command: continues crashed and waiting runs of the registered repositories by itself. */
import { mainWorktreeRoot } from "@holdfast/core/workspace";
import { HoldfastError } from "@holdfast/platform/error";
import { readWorkerEnv } from "../../worker/manage-service.ts";
import { type WorkerEvent, runWorker } from "../../worker/run-worker.ts";
import { type WorkerRepository, openWorkerState } from "../../worker/worker-state.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import { EXITS, type Exit } from "../exit.ts";
import type { Page } from "../output/page.ts";
import { escapeText, momentText, wrapProse } from "../output/text.ts";

export const spec = {
  name: "worker",
  summary: "continue crashed and waiting runs by itself",
  details: [
    "Looks at the runs of the repositories that `holdfast service install` has added, and continues those whose process died, those that SIGTERM ended (such as a shutdown), and those whose wait for quota, provider, forge, CI or disk space is over. Each run gets its own process, which does what `holdfast resume RUN` does, with the same consent checks.",
    "It never answers a question and never raises a limit. A run that you stopped or paused, or that has ended, stays as it is. At most `loops.max` runs of a repository work at once. A run that fails again is tried after a growing delay, and after six failures not any more.",
    "Ctrl+C and SIGTERM save the runs that it started; the next worker continues them. Only one worker of a user runs at a time. docs/service.md describes the variables that a service has.",
  ],
  operands: [],
  consent: "reads",
  flags: {
    once: { type: "boolean", about: "look once, continue what is due, and exit when these runs have stopped" },
    here: { type: "boolean", about: "look after the repository of this directory only, whether or not it was added" },
  },
  examples: [
    { line: "holdfast worker", about: "look after all added repositories until Ctrl+C" },
    { line: "holdfast worker --here", about: "look after this repository only, in a container" },
    { line: "holdfast worker --once --here", about: "continue what is due in this repository, for cron" },
  ],
  windsDown: true,
  json: 'One line for each change: {"kind": "start" or "skip", "repository", "run", "why"}, {"kind": "wait", "repository", "run", "why", "until"}, {"kind": "ended", "repository", "run", "exit"} or {"kind": "repository", "repository", "problem"}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const env = readWorkerEnv(shell.env);
  const state = openWorkerState(shell.env);
  const repositories = input.on("here") ? [await repositoryHere(shell)] : null;
  const isIdle = repositories === null && state.repositories().length === 0;
  if (isIdle && input.on("once"))
    throw new HoldfastError({
      code: "NOTHING_TO_RESUME",
      message: "The worker looks after no repository",
      hint: "Run `holdfast service install` in a repository, or `holdfast worker --once --here`.",
    });
  using _lock = state.lock();
  shell.notify(startText(repositories ?? state.repositories(), input.on("once"), shell.talk));
  await runWorker({
    state,
    env,
    page: shell.talk,
    repositories,
    once: input.on("once"),
    signal: shell.signal,
    inherits: !shell.json,
    emit: (event) =>
      void shell.write(shell.json ? `${JSON.stringify(event)}\n` : wrapProse(eventText(event, shell.page), shell.page)),
  });
  return shell.signal.aborted ? "interrupted" : "done";
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
  const place = escapeText(event.repository);
  if (event.kind === "repository") return `Cannot look at ${place}: ${escapeText(event.problem ?? "")}\n`;
  const name = `${event.run} in ${place}`;
  switch (event.kind) {
    case "start":
      return `Continuing ${name}: ${escapeText(event.why)}\n`;
    case "wait": {
      const until = event.until === null ? "" : ` until ${momentText(event.until, page)}`;
      return `Waiting with ${name}${until}: ${escapeText(event.why)}\n`;
    }
    case "skip":
      return `Leaving ${name}: ${escapeText(event.why)}\n`;
    case "ended":
      return `Stopped ${name}: ${event.exit === null ? "its process was killed" : EXITS[event.exit].about}\n`;
  }
}

/** The repository of this directory, by its main worktree: the worktree of a run disappears with the run. */
export async function repositoryHere(shell: Shell): Promise<WorkerRepository> {
  const root = await mainRootAt(shell.cwd);
  const { config } = await shell.consent.settings();
  const { store } = config.settings;
  const origin = config.entries.find(({ key }) => key === "store")?.origin.kind;
  const isNamed = store !== null && (origin === "flag" || origin === "environment");
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

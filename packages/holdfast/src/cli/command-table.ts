/** The table of all commands by group, which are loaded on demand. */
import { type Command, command } from "./command.ts";

/**
 * The groups and the order of the help text. A command's module is loaded when the command runs; help and completion
 * load all of them.
 */
const GROUPS: Readonly<Record<string, Readonly<Record<string, () => Promise<Omit<Command, "group">>>>>> = {
  Work: {
    run: command(() => import("./commands/run.ts")),
    resume: command(() => import("./commands/resume.ts")),
    submit: command(() => import("./commands/submit.ts")),
    stop: command(() => import("./commands/stop.ts")),
    take: command(() => import("./commands/take.ts")),
    approve: command(() => import("./commands/approve.ts")),
    status: command(() => import("./commands/status.ts")),
    output: command(() => import("./commands/output.ts")),
    ui: command(() => import("./commands/ui.ts")),
    queue: command(() => import("./commands/queue.ts")),
    workers: command(() => import("./commands/workers.ts")),
  },
  Checkpoints: {
    checkpoint: command(() => import("./commands/checkpoint.ts")),
    list: command(() => import("./commands/list.ts")),
    show: command(() => import("./commands/show.ts")),
    events: command(() => import("./commands/events.ts")),
    find: command(() => import("./commands/find.ts")),
    diff: command(() => import("./commands/diff.ts")),
    restore: command(() => import("./commands/restore.ts")),
    undo: command(() => import("./commands/undo.ts")),
    fork: command(() => import("./commands/fork.ts")),
    tag: command(() => import("./commands/tag.ts")),
    rm: command(() => import("./commands/rm.ts")),
  },
  Compare: {
    compare: command(() => import("./commands/compare.ts")),
    "cherry-pick": command(() => import("./commands/cherry-pick.ts")),
    replay: command(() => import("./commands/replay.ts")),
    rerun: command(() => import("./commands/rerun.ts")),
  },
  "Other tools": {
    format: command(() => import("./commands/format.ts")),
    "format import": command(() => import("./commands/format-import.ts")),
    "format export": command(() => import("./commands/format-export.ts")),
    "format convert": command(async () => (await import("./commands/format.ts")).convert),
    "format validate": command(async () => (await import("./commands/format.ts")).validate),
    "format mirror": command(async () => (await import("./commands/format.ts")).mirror),
    "format schema": command(async () => (await import("./commands/format.ts")).schema),
  },
  Administration: {
    setup: command(() => import("./commands/setup.ts")),
    config: command(() => import("./commands/config.ts")),
    agents: command(() => import("./commands/agents.ts")),
    trust: command(() => import("./commands/trust.ts")),
    doctor: command(() => import("./commands/doctor.ts")),
    verify: command(() => import("./commands/verify.ts")),
    gc: command(() => import("./commands/gc.ts")),
    store: command(() => import("./commands/store.ts")),
    "store push": command(async () => (await import("./commands/store-files.ts")).push),
    "store fetch": command(async () => (await import("./commands/store-files.ts")).fetch),
    service: command(() => import("./commands/service.ts")),
    worker: command(() => import("./commands/worker.ts")),
    completion: command(() => import("./commands/completion.ts")),
    demo: command(() => import("./commands/demo.ts")),
    help: command(() => import("./commands/help.ts")),
  },
  Hidden: {
    complete: command(() => import("./commands/complete.ts")),
    "demo-worker": command(() => import("./commands/demo-worker.ts")),
  },
};

const LOADERS = new Map(
  Object.entries(GROUPS).flatMap(([group, commands]) =>
    Object.entries(commands).map(([name, load]) => [name, async () => ({ ...(await load()), group })] as const),
  ),
);

export const COMMAND_NAMES: readonly string[] = [...LOADERS.keys()];

export function loadCommand(name: string): Promise<Command> | undefined {
  return LOADERS.get(name)?.();
}

export function loadCommands(): Promise<readonly Command[]> {
  return Promise.all([...LOADERS.values()].map((load) => load()));
}

/** The table of all commands, which are loaded on demand. */
import { type Command, command } from "./command.ts";

/**
 * The order of the help text: work, inspect, save, go back, other tools, maintenance, setup. A command's module is
 * loaded when the command runs; help and completion load all of them.
 */
const LOADERS: Readonly<Record<string, () => Promise<Command>>> = {
  run: command(() => import("./commands/run.ts")),
  resume: command(() => import("./commands/resume.ts")),
  status: command(() => import("./commands/status.ts")),
  loops: command(() => import("./commands/loops.ts")),
  stop: command(() => import("./commands/stop.ts")),
  pause: command(() => import("./commands/pause.ts")),
  abort: command(() => import("./commands/abort.ts")),
  approve: command(() => import("./commands/approve.ts")),
  logs: command(() => import("./commands/output.ts")),
  demo: command(() => import("./commands/demo.ts")),
  list: command(() => import("./commands/list.ts")),
  show: command(() => import("./commands/show.ts")),
  log: command(() => import("./commands/events.ts")),
  diff: command(() => import("./commands/diff.ts")),
  compare: command(() => import("./commands/compare.ts")),
  checkpoint: command(() => import("./commands/checkpoint.ts")),
  tag: command(() => import("./commands/tag.ts")),
  restore: command(() => import("./commands/restore.ts")),
  fork: command(() => import("./commands/fork.ts")),
  graft: command(() => import("./commands/cherry-pick.ts")),
  replay: command(() => import("./commands/replay.ts")),
  rerun: command(() => import("./commands/rerun.ts")),
  import: command(() => import("./commands/format-import.ts")),
  export: command(() => import("./commands/format-export.ts")),
  convert: command(() => import("./commands/format-convert.ts")),
  validate: command(() => import("./commands/format-validate.ts")),
  schema: command(() => import("./commands/format-schema.ts")),
  mirror: command(() => import("./commands/format-mirror.ts")),
  verify: command(() => import("./commands/verify.ts")),
  gc: command(() => import("./commands/gc.ts")),
  doctor: command(() => import("./commands/doctor.ts")),
  agents: command(() => import("./commands/agents.ts")),
  setup: command(() => import("./commands/setup.ts")),
  init: command(() => import("./commands/init.ts")),
  config: command(() => import("./commands/config.ts")),
  trust: command(() => import("./commands/trust.ts")),
  completion: command(() => import("./commands/completion.ts")),
  help: command(() => import("./commands/help.ts")),
  complete: command(() => import("./commands/complete.ts")),
  "demo-worker": command(() => import("./commands/demo-worker.ts")),
};

export const COMMAND_NAMES: readonly string[] = Object.keys(LOADERS);

export function loadCommand(name: string): Promise<Command> | undefined {
  return Object.hasOwn(LOADERS, name) ? LOADERS[name]?.() : undefined;
}

export function loadCommands(): Promise<readonly Command[]> {
  return Promise.all(Object.values(LOADERS).map((load) => load()));
}

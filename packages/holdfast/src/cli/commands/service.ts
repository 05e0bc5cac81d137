/** The `service` command: installs, removes and describes the service that runs the worker after a login or reboot. */
import { existsSync } from "node:fs";
import { userInfo } from "node:os";
import { resolve } from "node:path";
import { usageError } from "@holdfast/platform/error";
import { statusWord } from "@holdfast/core/status";
import {
  cannotManage,
  hasLinger,
  installService,
  installedFile,
  isServiceEnabled,
  isTemporaryInstallation,
  missingManager,
  planOwnService,
  removeService,
  workerEnvPath,
} from "../../worker/manage-service.ts";
import { type WorkDecision, leaveToQueue } from "../../worker/plan-work.ts";
import { type RepositoryView, lookAt, planViews } from "../../worker/run-worker.ts";
import type { CommandWords, ServicePlan } from "../../worker/service-files.ts";
import { parseHealthAddress } from "../../worker/worker-health.ts";
import { type WorkerState, openWorkerState } from "../../worker/worker-state.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import type { Page } from "../output/page.ts";
import { RUN_COLUMN } from "../output/run-text.ts";
import { type Cell, renderTable } from "../output/table.ts";
import { escapeText, momentText } from "../output/text.ts";
import { quoteWord } from "../shell.ts";
import { mainRootAt, readSlots, refuseWithoutJoin, repositoryAt } from "./worker.ts";

export const spec = {
  name: "service",
  summary: "continue runs by itself after a crash or reboot",
  details: [
    "`install` adds this repository to the worker's list, writes a systemd user unit (Linux) or a launchd agent (macOS) that runs `holdfast worker`, and starts it. Run it once in each repository. `holdfast worker --help` explains which runs it continues.",
    "With --join the worker executes the submitted runs of all repositories on the list (docs/team.md). An `install` without --join, --slots, --label and --health keeps those of the last one; `remove` forgets them.",
    "`status` shows whether the service is installed and running, and what the worker does with each unfinished run. `remove` stops the worker and removes its files; runs stay as they are.",
    "The file holds no secret. Variables that agents need, such as API keys, go into ~/.config/holdfast/worker.env (mode 600). docs/service.md explains it, and `loginctl enable-linger`, which starts the service without a login.",
  ],
  operands: [
    {
      name: "ACTION",
      about: "install, status or remove",
      required: true,
      completes: "nothing",
      choices: ["install", "status", "remove"],
      synonyms: { uninstall: "remove", delete: "remove", disable: "remove", enable: "install" },
    },
  ],
  consent: "reads",
  flags: {
    repository: {
      type: "text",
      value: "DIR",
      about: "with remove: only take this repository off the list; the service stays",
      completes: "directory",
    },
    join: { type: "boolean", about: "with install: the worker joins the queue of submitted runs" },
    slots: { type: "text", value: "N", about: "with install --join: runs at once" },
    label: { type: "text", value: "LABEL", about: "with install --join: a label of the worker; repeatable" },
    health: { type: "text", value: "[HOST:]PORT", about: "with install: the worker answers GET /health there" },
    "dry-run": { type: "boolean", about: "with install: print the file and change nothing" },
  },
  examples: [
    { line: "holdfast service install", about: "continue the runs of this repository after a crash or reboot" },
    { line: "holdfast service install --join --slots 3", about: "execute submitted runs, three at a time" },
    { line: "holdfast service install --dry-run", about: "print the file that would be written" },
    { line: "holdfast service status", about: "show the repositories, and what happens with each unfinished run" },
    { line: "holdfast service remove --repository .", about: "leave this repository to you again" },
  ],
  json: '{"action": "install", "dryRun", "service": "systemd" or "launchd", "file", "text", "changed", "enabled", "problem", "commands": [[words]], "repository": {"root", "store"}}; {"action": "status", "service", "file", "installed": "absent", "current" or "outdated", "enabled": true, false or null (unknown), "worker": pid or null, "linger", "repositories": [{"root", "store", "problem"}], "runs": [{"repository", "run", "status", "kind", "why", "until"}]}; {"action": "remove", "service", "file", "removed", "problem", "commands", "repositories": [roots]}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const action = input.operand(0);
  const only = input.text("repository");
  if (only !== undefined && action !== "remove")
    throw usageError("--repository belongs to `service remove`", "`install` adds the repository of this directory.");
  if (input.on("dry-run") && action !== "install")
    throw usageError("--dry-run belongs to `service install`", "`holdfast service status` shows what is installed.");
  const flags = await workerFlags(input);
  if (flags.length > 0 && action !== "install")
    throw usageError(
      `${flags[0]} belongs to \`service install\``,
      "`holdfast service status` shows what is installed.",
    );
  const state = openWorkerState(shell.env);
  if (action === "install")
    return await install(shell, state, {
      flags: flags.length === 0 ? state.serviceFlags() : flags,
      dryRun: input.on("dry-run"),
    });
  if (action === "remove") return only === undefined ? await remove(shell, state) : await removeOne(shell, state, only);
  return await showStatus(shell, state);
}

/** The flags for `holdfast worker`, checked as the worker will check them. */
async function workerFlags(input: Input<(typeof spec)["flags"]>): Promise<readonly string[]> {
  const [slots, labels, health] = [input.text("slots"), input.texts("label"), input.text("health")];
  if (!input.on("join")) refuseWithoutJoin(input);
  readSlots(slots);
  if (labels.length > 0) labels.forEach((await import("../../worker/open-dispatch.ts")).checkOwnLabel);
  if (health !== undefined) parseHealthAddress(health);
  return [
    ...(input.on("join") ? ["--join"] : []),
    ...(slots === undefined ? [] : ["--slots", slots]),
    ...labels.flatMap((label) => ["--label", label]),
    ...(health === undefined ? [] : ["--health", health]),
  ];
}

async function install(
  shell: Shell,
  state: WorkerState,
  { flags, dryRun }: { readonly flags: readonly string[]; readonly dryRun: boolean },
): Promise<Exit> {
  const named = await repositoryAt(shell, shell.cwd);
  // A store that was named before stays. `service remove --repository .` forgets it.
  const repository = { ...named, store: named.store ?? state.storeOf(named.root) };
  const plan = planOwnService(shell.env, repository.root, flags);
  const { kind: service, path: file, text, enable: commands } = plan;
  const common = { action: "install", dryRun, service, file, text, commands, repository };
  if (dryRun) {
    shell.print({
      json: () => ({ ...common, changed: false, enabled: false, problem: null }),
      text: () => text,
      content: true,
    });
    shell.notify(`Nothing was written. The file would be ${escapeText(file)}`);
    return "done";
  }
  const missing = missingManager(plan, shell.env);
  // The list first: a worker that starts finds the repository.
  const added = state.add(repository);
  // Then the flags: without them, another repository's `install` would replace the file by one of a worker that has not joined.
  state.saveServiceFlags(flags);
  const joins = flags.includes("--join");
  // A joined worker reads the list when it starts; the other one at each look.
  const isUpToDate = joins ? !added && state.worker("joined") !== null : state.worker("own") !== null;
  const done = await installService(plan, { env: shell.env, isUpToDate });
  shell.print({
    json: () => ({ ...common, ...done, changed: done.changed || added }),
    text: () =>
      [
        `The worker looks after ${escapeText(repository.root)}${repository.store === null ? "" : `, with the store ${escapeText(repository.store)}`}`,
        `${done.changed ? "Wrote" : "Unchanged:"} ${escapeText(file)}`,
        ...(flags.length === 0 ? [] : [`It runs ${shell.talk.program} ${workerLine(flags)}`]),
        done.enabled
          ? "The service is enabled and runs."
          : `The service was not started: ${escapeText(done.problem ?? "")}`,
      ].join("\n") + (done.enabled || missing !== null ? "\n" : `\nStart it with:\n${commandLines(commands)}`),
  });
  if (isTemporaryInstallation())
    shell.notify("This Holdfast is in the cache of npx, which npm may delete: npm install --global holdfast");
  noteStart(shell, plan, flags);
  return "done";
}

function workerLine(flags: readonly string[]): string {
  return ["worker", ...flags.map(quoteWord)].join(" ");
}

/** When the service starts, or what to do where nothing starts it. */
function noteStart(shell: Shell, plan: ServicePlan, flags: readonly string[]): void {
  if (missingManager(plan, shell.env) !== null)
    return shell.notify(
      `Without a service manager, run the worker yourself: ${shell.talk.program} ${workerLine(flags)}`,
    );
  if (hasLinger(plan) !== false) return;
  shell.notify(
    `It starts when you log in. To start it at boot: loginctl enable-linger ${quoteWord(userInfo().username)}`,
  );
}

function commandLines(commands: readonly CommandWords[]): string {
  return commands.map((words) => `  ${words.map(quoteWord).join(" ")}\n`).join("");
}

async function removeOne(shell: Shell, state: WorkerState, directory: string): Promise<Exit> {
  const place = resolve(shell.cwd, directory);
  // One that was moved or deleted is on the list under its old place.
  const isGone = state.repositories().some(({ root }) => root === place) || !existsSync(place);
  const root = isGone ? place : await mainRootAt(place);
  const plan = planOwnService(shell.env, root, state.serviceFlags());
  const found = state.remove(root);
  shell.print({
    json: () => removal(plan, { removed: false, problem: null, repositories: found ? [root] : [] }),
    text: () =>
      found ? `The worker no longer looks after ${escapeText(root)}\n` : `${escapeText(root)} was not on the list.\n`,
  });
  if (!found) shell.notify(repositoriesNote(state));
  else if (state.worker("joined") !== null)
    shell.notify(`A worker that has joined reads the list when it starts:\n${commandLines(plan.restart)}`);
  return "done";
}

function repositoriesNote(state: WorkerState): string {
  const roots = state.repositories().map(({ root }) => escapeText(root));
  return roots.length === 0 ? "The worker looks after no repository." : `On the list: ${roots.join(", ")}`;
}

async function remove(shell: Shell, state: WorkerState): Promise<Exit> {
  const plan = planOwnService(shell.env, shell.consent.root, state.serviceFlags());
  const { removed, problem } = await removeService(plan, shell.env);
  const repositories = state.repositories().map(({ root }) => root);
  if (problem === null) state.clear();
  shell.print({
    json: () => removal(plan, { removed, problem, repositories: problem === null ? repositories : [] }),
    text: () => {
      if (problem !== null) return `Nothing was removed: ${escapeText(problem)}\n`;
      if (!removed && repositories.length === 0) return "No service is installed.\n";
      const mayRun = cannotManage(plan, shell.env) !== null && missingManager(plan, shell.env) === null;
      const stop = removed && mayRun ? `If it runs, stop it with:\n${commandLines(plan.disable)}` : "";
      return `${removed ? `Removed ${escapeText(plan.path)}\n` : ""}The worker looks after no repository any more. Runs stay as they are.\n${stop}`;
    },
  });
  return problem === null ? "done" : "failed";
}

function removal(
  { kind: service, path: file, disable: commands }: ServicePlan,
  result: { readonly removed: boolean; readonly problem: string | null; readonly repositories: readonly string[] },
): object {
  return { action: "remove", service, file, commands, ...result };
}

async function showStatus(shell: Shell, state: WorkerState): Promise<Exit> {
  const plan = planOwnService(shell.env, shell.consent.root, state.serviceFlags());
  const [installed, enabled] = [installedFile(plan), await isServiceEnabled(plan, shell.env)];
  const views: RepositoryView[] = [];
  for (const repository of state.repositories())
    views.push(await lookAt(repository, { env: shell.env, page: shell.talk }));
  const flags = state.serviceFlags();
  const joins = flags.includes("--join");
  const decisions = joins
    ? views.flatMap((view) => view.runs.map(leaveToQueue))
    : planViews(views, { history: state.history(), active: new Set(), now: Date.now() });
  const words = new Map(
    views.flatMap(({ runs }) => runs.map((one) => [`${one.repository}\0${one.run}`, statusWord(one.status)])),
  );
  const runs = decisions.map((decision) => ({
    until: null,
    ...decision,
    status: words.get(`${decision.repository}\0${decision.run}`) ?? "",
  }));
  const worker = state.worker(joins ? "joined" : "own");
  const linger = hasLinger(plan);
  const missing = installed === "absent" ? null : missingManager(plan, shell.env);
  const secrets = workerEnvPath(shell.env);
  shell.print({
    json: () => ({
      action: "status",
      service: plan.kind,
      file: plan.path,
      installed,
      enabled,
      worker,
      linger,
      repositories: views.map(({ root, store, problem }) => ({ root, store, problem })),
      runs,
    }),
    text: (page) =>
      [
        `Service: ${INSTALLED[installed]}${missing === null ? "" : `, but ${missing} is not installed`}${enabled === null ? "" : enabled ? ", enabled" : ", not enabled"}\n`,
        `Worker:  ${worker === null ? "not running" : `running (pid ${worker})`}\n`,
        ...(installed === "absent" ? [] : [`File:    ${escapeText(plan.path)}\n`]),
        `Secrets: ${escapeText(secrets)}${existsSync(secrets) ? "" : " (no such file)"}\n`,
        repositoriesText(views),
        runsText(runs, page),
      ].join(""),
  });
  if (installed !== "current") shell.notify(`Install it: ${shell.talk.program} service install`);
  else noteStart(shell, plan, flags);
  return "done";
}

const INSTALLED = {
  absent: "not installed",
  current: "installed",
  outdated: "installed for another Node or Holdfast",
} as const;

function repositoriesText(views: readonly RepositoryView[]): string {
  if (views.length === 0) return "The worker looks after no repository.\n";
  const lines = views.map(
    ({ root, problem }) => `  ${escapeText(root)}${problem === null ? "" : `: ${escapeText(problem)}`}\n`,
  );
  return `Repositories:\n${lines.join("")}`;
}

function runsText(
  runs: readonly (WorkDecision & { readonly until: string | null; readonly status: string })[],
  page: Page,
): string {
  const columns = [
    RUN_COLUMN,
    { title: "STATUS" },
    { title: "THE WORKER" },
    { title: "WHY", shrinkTo: 24, wrap: true },
  ] as const;
  const rows = runs.map((one): readonly Cell[] => [
    { text: one.run },
    { text: one.status },
    { text: one.until === null ? WORDS[one.kind] : `continues ${momentText(one.until, page)}` },
    { text: one.why },
  ]);
  return rows.length === 0 ? "No unfinished run.\n" : `\n${renderTable({ columns, rows }, page)}`;
}

const WORDS: Readonly<Record<WorkDecision["kind"], string>> = {
  start: "continues it",
  wait: "continues later",
  skip: "leaves it",
};

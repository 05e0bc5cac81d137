/** Implements the shell that commands use: consent, settings, store, output and questions. */
import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import type { Adapters } from "@holdfast/core/adapters";
import { RUN_ID } from "@holdfast/core/run";
import { mainWorktreeRoot } from "@holdfast/core/workspace";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { type EffectiveConfig, type Origin, openParamsOf } from "../config/effective-config.ts";
import type { Holdfast } from "../holdfast.ts";
import type { OpenParams } from "../open.ts";
import type { RunList } from "../open-store.ts";
import { registerRepository } from "../repository-registry.ts";
import { NO_LINK, type PageLink, pageLink, runPath } from "../ui/ui-state.ts";
import type { Command, GLOBAL_FLAGS, Input, Shell } from "./command.ts";
import { type Consent, type ConsentScope, type ReadSettings, USES_OF, createConsent } from "./consent.ts";
import { EXIT_OF } from "./exit.ts";
import { type PendingResult, createPendingWork } from "./interrupts.ts";
import { STYLE_MARK, pageOf, pageWidth } from "./output/page.ts";
import { reportDatabase, reportFetches, reportWaits } from "./report-remotes.ts";
import { NO_PROGRESS, type Streams, createProgress } from "./output/terminal.ts";
import { wrapProse } from "./output/text.ts";
import { isStoreUrl, withoutPassword } from "@holdfast/postgres/store-url";
import { WAIT_MS } from "./run-holder.ts";

interface ShellParams {
  readonly globals: Input<typeof GLOBAL_FLAGS>;
  readonly streams: Streams;
  readonly signal: AbortSignal;
  readonly commands: () => Promise<readonly Command[]>;
  /** The command only reads, so a broken config file does not stop it. */
  readonly reads: boolean;
  readonly consent: ConsentScope;
  /** The command may print after a signal. */
  readonly windsDown: boolean;
}

interface OpenShell extends Shell {
  /** Waits for work that must not be cut in half, then closes the store. */
  close(): Promise<PendingResult>;
  /** The error about runs that were left out of the output because the store was truncated; null: there are none. */
  withheld(): Promise<HoldfastError | null>;
  /** The page of the run that an error is about, if the user must act or wait. */
  linkOf(error: HoldfastError): PageLink;
}

export async function openShell(params: ShellParams): Promise<OpenShell> {
  const { globals, streams, signal } = params;
  const { env } = process;
  const json = globals.on("json");
  const silent = json || globals.on("quiet");
  const cwd = await workingDirectory(globals.text("cwd"));
  const options = { env, noColorFlag: globals.on("no-color"), program: suggestedProgram(globals) };
  const talk = pageOf({ stream: process.stderr, ...options });
  const page = pageOf({ stream: process.stdout, ...options });
  const canAsk = !json && process.stdin.isTTY === true && talk.terminal;
  const work = createPendingWork();
  let holdfast: Promise<Holdfast> | undefined;
  let runList: Promise<RunList | null> | undefined;
  let opensForWriting = false;
  let location: string | undefined;

  const hushed = (): boolean => signal.aborted && !params.windsDown;
  const notify = (text: string): void => {
    if (text !== "" && !silent && !hushed())
      streams.err.write(wrapProse(text.endsWith("\n") ? text : `${text}\n`, talk));
  };
  const confirm: Shell["confirm"] = async (question, { enter = "no" } = {}) => {
    if (!canAsk) return "cannot_ask";
    const { askYesNo } = await import("./output/terminal.ts");
    const asked = streams.err.shown(wrapProse(question, talk, talk.width - CHOICE));
    return askYesNo({ question: asked, enter, input: process.stdin, output: process.stderr, signal });
  };
  const consent = createConsent({
    cwd,
    env,
    storeFlag: globals.text("store"),
    noConfig: globals.on("no-config"),
    trustFlag: globals.on("trust"),
    lenient: params.reads,
    notify,
    isQuiet: silent,
    warn: (text, document) => {
      if (!hushed()) streams.err.write(json ? `${JSON.stringify(document)}\n` : wrapProse(`${text}\n`, talk));
    },
    page: talk,
    confirm,
  });
  const onWait = reportDatabase({ notify, talk });
  const read = async (): Promise<ReadSettings> => {
    if (params.consent !== "reads") await consent.require({ uses: USES_OF[params.consent] });
    return await consent.settings();
  };
  const register = async (opened: Holdfast): Promise<void> => {
    if (PRETENDED.has(opened)) return;
    const { store, workspaces } = opened;
    const root = (): Promise<string> => mainWorktreeRoot(workspaces, cwd);
    await registerRepository(env, { id: store.id, store: store.location, root }, Date.now());
  };
  const shell: Shell = {
    env,
    cwd,
    json,
    quiet: globals.on("quiet"),
    signal,
    commands: params.commands,
    page,
    talk,
    config: async () => (await read()).config,
    consent,
    open: ({ create, pretend = false, writes = !params.reads }) => {
      opensForWriting ||= writes;
      holdfast ??= (async () => {
        const settings = await read();
        await consent.warnOfStore();
        const readOnly = !writes;
        const opened = await openStore({
          cwd,
          create,
          pretend,
          readOnly,
          settings,
          refuseCall: consent.refuseCall,
          notify,
          onWait,
        });
        location = opened.store.location;
        // The first run of a repository takes long, and is listed while it runs.
        if (create && writes) await register(opened);
        return opened;
      })();
      return holdfast;
    },
    createStore: async () => {
      const first = await holdfast;
      if (first !== undefined && !PRETENDED.has(first)) return first;
      await first?.close();
      holdfast = undefined;
      return await shell.open({ create: true, writes: true });
    },
    openIfThere: async (access) => {
      try {
        return await shell.open({ create: false, ...access });
      } catch (error) {
        if (error instanceof HoldfastError && error.code === "STORE_ABSENT" && error.data["named"] !== true)
          return (holdfast = undefined);
        throw error;
      }
    },
    openRunList: async () => {
      const { settings } = (await read()).config;
      // The secrets of copied files are masked, and they are in the main worktree.
      if (holdfast !== undefined || settings.workspace.copy.length > 0) return await shell.openIfThere();
      await consent.warnOfStore();
      const { openRunList } = await import("../open-store.ts");
      runList = openRunList({ cwd, onWait, ...(settings.store === null ? {} : { store: settings.store }) });
      const list = await runList;
      if (list === null) return await shell.openIfThere();
      location = list.store.location;
      return list;
    },
    doctor: async () => {
      const [{ config }, { doctor }] = await Promise.all([read(), import("../doctor.ts")]);
      const { store, ...params } = openParamsOf(config);
      // Free space can be measured only in an existing directory. The command itself reports a missing named store.
      return doctor({
        cwd,
        ...params,
        ...(store === undefined || !(isStoreUrl(store) || existsSync(store)) ? {} : { store }),
      });
    },
    finish: work.add,
    print: (report) => {
      if (hushed()) return;
      const isContent = report.content === true;
      const text = (): string =>
        isContent || report.verbatim === true ? report.text(page) : wrapProse(report.text(page), page);
      streams.out.write(
        json ? `${JSON.stringify(report.json(), null, 2)}\n` : text(),
        isContent && !json ? "content" : "message",
      );
    },
    write: (text, kind) => streams.out.write(text, kind),
    notify,
    columns: () => {
      const { isTTY, columns } = process.stdout;
      return pageWidth({ env, columns: isTTY === true ? columns : undefined });
    },
    progress: () =>
      silent
        ? NO_PROGRESS
        : createProgress({
            write: (text) => void streams.err.write(text),
            terminal: talk.terminal,
            width: talk.width,
            seal: STYLE_MARK,
            now: Date.now,
          }),
    canAsk,
    ask: async (question, fallback) => {
      const { askText } = await import("./output/terminal.ts");
      return askText({
        question: streams.err.shown(question),
        fallback,
        shownFallback: streams.err.shown(fallback),
        input: process.stdin,
        output: process.stderr,
        signal,
      });
    },
    confirm,
  };
  return {
    ...shell,
    async withheld() {
      const store = (await (holdfast ?? runList)?.catch(() => undefined))?.store;
      const cuts = store?.withheld?.() ?? [];
      const [first] = cuts;
      if (store === undefined || first === undefined) return null;
      return new HoldfastError({
        code: "STORE_CUT",
        message: `The store ${store.location} is older or shorter than before. Not listed: ${cuts.map(({ why }) => why).join("; ")}`,
        hint: "The other runs are complete. Restore the whole store from one backup; `holdfast verify` names the damage.",
        data: { location: store.location, runs: cuts.map(({ run, number, why }) => ({ run, number, why })) },
      });
    },
    linkOf({ code, data: { run } }) {
      const exit = EXIT_OF[code];
      if (location === undefined || typeof run !== "string" || !RUN_ID.test(run)) return NO_LINK;
      return exit === "needs_you" || exit === "held" ? pageLink(env, location, runPath(run)) : NO_LINK;
    },
    async close() {
      const ended = await work.settle();
      const opened = await holdfast?.catch(() => undefined);
      if (opened !== undefined && opensForWriting) await register(opened);
      await opened?.close();
      await (await runList?.catch(() => undefined))?.close();
      return ended;
    },
  };
}

/** Columns of " [y/N] ". */
const CHOICE = 7;

/** Opened without a store. */
const PRETENDED = new WeakSet<Holdfast>();

async function workingDirectory(flag: string | undefined): Promise<string> {
  const cwd = resolve(flag ?? ".");
  if (flag === undefined) return cwd;
  const found = await stat(cwd).catch(() => undefined);
  if (found?.isDirectory() === true) return cwd;
  throw usageError(`--cwd ${flag} is not a directory`, "Give a directory that exists.");
}

async function openStore(params: {
  readonly cwd: string;
  readonly create: boolean;
  readonly pretend: boolean;
  readonly readOnly: boolean;
  readonly settings: ReadSettings;
  readonly refuseCall: Consent["refuseCall"];
  readonly notify: Shell["notify"];
  readonly onWait: NonNullable<OpenParams["onWait"]>;
}): Promise<Holdfast> {
  const { config, broken } = params.settings;
  const { openHoldfast } = await import("../open.ts");
  const { refuseCall, notify, onWait } = params;
  const decorate = (adapters: Adapters): Adapters => ({
    ...adapters,
    refuseCall,
    branches: reportWaits(adapters.branches, notify),
  });
  const open = { cwd: params.cwd, leaseWaitMs: WAIT_MS, onWait, ...openParamsOf(config), adapters: decorate };
  // If there is no store, a config file that does not parse may be the one that names it, so its error comes first.
  try {
    const opened = await openHoldfast({ ...open, create: params.create, readOnly: params.readOnly });
    reportFetches(opened.files, notify);
    return opened;
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    if (error.code === "STORE_MISSING" && error.data["elsewhere"] === true) throw broken ?? error;
    if (error.code !== "STORE_ABSENT") throw error;
    // A first run that is still being prepared has no store yet, and can be seen and stopped all the same.
    const isStarting = async (): Promise<boolean> => {
      const { listStartingProcesses } = await import("../announce-start.ts");
      const { location } = error.data;
      return typeof location === "string" && listStartingProcesses(location, []).length > 0;
    };
    if (params.pretend || (await isStarting())) {
      const pretended = await openHoldfast({ ...open, pretend: true });
      PRETENDED.add(pretended);
      return pretended;
    }
    throw broken ?? absent(error, config);
  }
}

function absent(cause: HoldfastError, config: EffectiveConfig): HoldfastError {
  const location = config.settings.store ?? cause.data["location"];
  const place = typeof location === "string" ? withoutPassword(location) : "the git directory";
  const origin = config.entries.find(({ key }) => key === "store")?.origin ?? { kind: "default" };
  const named = namedBy(origin, config.path);
  if (named === null) {
    // The store's error suggests a wrong path; for a user at a prompt this is the normal beginning.
    return new HoldfastError({
      code: "STORE_ABSENT",
      message: `Nothing is saved here yet (no store in ${place})`,
      hint: "Start a run with `holdfast run`, or save a checkpoint with `holdfast checkpoint`.",
      data: cause.data,
      cause,
    });
  }
  return new HoldfastError({
    code: "STORE_ABSENT",
    message: `There is no store in ${place}, which ${named} names`,
    hint: isStoreUrl(place)
      ? "Check the URL. `holdfast submit`, `holdfast worker --join` and the first run create a store there."
      : "Check the path. `holdfast checkpoint` creates a store there.",
    data: { ...cause.data, location: place, named: true },
    cause,
  });
}

function namedBy(origin: Origin, path: string | null): string | null {
  switch (origin.kind) {
    case "default":
      return null;
    case "file":
      return path ?? "the config file";
    case "environment":
      return origin.variable;
    case "flag":
      return origin.flag;
  }
}

export const PROGRAM = "holdfast";

/** A suggested command without the user's --store would use another store. */
export function suggestedProgram(globals: Pick<Input<typeof GLOBAL_FLAGS>, "text">): string {
  const flags = (["store", "cwd"] as const).flatMap((name) => {
    const value = globals.text(name);
    return value === undefined ? [] : [` --${name} ${quoteWord(withoutPassword(value))}`];
  });
  return PROGRAM + flags.join("");
}

/** For hints from code that does not know the flags. Changes only command lines, not the product's name. */
export function repeatFlags(hint: string, program: string, commands: readonly string[]): string {
  const lines = new RegExp(`\\b${PROGRAM} (?=(?:${commands.join("|")})\\b)`, "g");
  return program === PROGRAM ? hint : hint.replace(lines, () => `${program} `);
}

/** Quotes one word for a POSIX shell, only if needed. */
export function quoteWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

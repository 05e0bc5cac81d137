import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import type { Holdfast } from "../app.ts";
import { openParamsOf } from "../config/effective-config.ts";
import { HoldfastError } from "../core/error.ts";
import type { Command, Input, Shell } from "./command.ts";
import type { GLOBAL_FLAGS } from "./global-flags.ts";
import { NO_PROGRESS, createProgress } from "./output/progress.ts";
import type { Streams } from "./output/sink.ts";
import { pageWidth } from "./output/page.ts";
import { pageOf, SEAL } from "./output/stream-page.ts";
import { createConsent, USES_OF } from "./consent.ts";
import type { ConsentScope, ReadSettings } from "./consent.ts";
import { openStore } from "./open-store.ts";
import { suggestedProgram } from "./suggested-program.ts";
import { createUnfinished } from "./unfinished-work.ts";
import type { Ended } from "./unfinished-work.ts";

export interface ShellParams {
  readonly globals: Input<typeof GLOBAL_FLAGS>;
  readonly streams: Streams;
  readonly signal: AbortSignal;
  readonly commands: readonly Command[];
  /** The command only looks, so a broken config file does not stop it. */
  readonly reads: boolean;
  readonly consent: ConsentScope;
  /** The command speaks also after a signal. */
  readonly windsDown: boolean;
}

export interface OpenShell extends Shell {
  /** Waits for what must not be cut in half, then closes the store. */
  close(): Promise<Ended>;
  /** An error about runs that were left out of what was printed because the store was cut; null: there are none. */
  withheld(): Promise<HoldfastError | null>;
}

export async function openShell(params: ShellParams): Promise<OpenShell> {
  const { globals, streams, signal } = params;
  const { env } = process;
  const json = globals.on("json");
  const silent = json || globals.on("quiet");
  const cwd = await workingDirectory(globals.text("cwd"));
  const look = { env, noColorFlag: globals.on("no-color"), program: suggestedProgram(globals) };
  const talk = pageOf({ stream: process.stderr, ...look });
  const page = pageOf({ stream: process.stdout, ...look });
  const canAsk = !json && process.stdin.isTTY === true && talk.terminal;
  const work = createUnfinished();
  let holdfast: Promise<Holdfast> | undefined;

  const hushed = (): boolean => signal.aborted && !params.windsDown;
  const say = (text: string): void => {
    if (text !== "" && !silent && !hushed()) streams.err.write(text.endsWith("\n") ? text : `${text}\n`);
  };
  const confirm: Shell["confirm"] = async (question) => {
    if (!canAsk) return "cannot_ask";
    const { askYesNo } = await import("./output/ask-yes-no.ts");
    return askYesNo({ question: streams.err.shown(question), input: process.stdin, output: process.stderr, signal });
  };
  const consent = createConsent({
    cwd,
    env,
    storeFlag: globals.text("store"),
    noConfig: globals.on("no-config"),
    trustFlag: globals.on("trust"),
    lenient: params.reads,
    say,
    warn: (text, document) => {
      if (!hushed()) streams.err.write(json ? `${JSON.stringify(document)}\n` : `${text}\n`);
    },
    page: talk,
    confirm,
  });
  const read = async (): Promise<ReadSettings> => {
    if (params.consent !== "reads") await consent.require({ uses: USES_OF[params.consent] });
    return await consent.settings();
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
      holdfast ??= (async () => {
        const settings = await read();
        await consent.warnOfStore();
        return await openStore({ cwd, create, pretend, readOnly: !writes, settings, refuseCall: consent.refuseCall });
      })();
      return holdfast;
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
    doctor: async () => {
      const [{ config }, { doctor }] = await Promise.all([read(), import("../doctor.ts")]);
      const { store, ...params } = openParamsOf(config);
      // Free space can be measured only where something is; that a named store is not there is found by the command.
      return doctor({ cwd, ...params, ...(store === undefined || !existsSync(store) ? {} : { store }) });
    },
    finish: work.add,
    print: (report) => {
      if (hushed()) return;
      streams.out.write(
        json ? `${JSON.stringify(report.json(), null, 2)}\n` : report.text(page),
        report.content === true && !json ? "content" : "message",
      );
    },
    write: (text, kind) => streams.out.write(text, kind),
    say,
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
            seal: SEAL,
            now: Date.now,
          }),
    canAsk,
    ask: async (question, fallback) => {
      const { askText } = await import("./output/ask-text.ts");
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
      const store = (await holdfast?.catch(() => undefined))?.store;
      const cuts = store?.withheld?.() ?? [];
      const [first] = cuts;
      if (store === undefined || first === undefined) return null;
      return new HoldfastError({
        code: "STORE_CUT",
        message: `The store ${store.location} is older or shorter than it was. Left out: ${cuts.map(({ why }) => why).join("; ")}`,
        hint: "The other runs are whole. Restore the whole directory from one backup; `holdfast verify` names what is damaged.",
        data: { location: store.location, runs: cuts.map(({ run, number, why }) => ({ run, number, why })) },
      });
    },
    async close() {
      const ended = await work.settle();
      await (await holdfast?.catch(() => undefined))?.close();
      return ended;
    },
  };
}

async function workingDirectory(flag: string | undefined): Promise<string> {
  const cwd = resolve(flag ?? ".");
  if (flag === undefined) return cwd;
  const found = await stat(cwd).catch(() => undefined);
  if (found?.isDirectory() === true) return cwd;
  throw new HoldfastError({
    code: "USAGE",
    message: `--cwd ${flag} is not a directory`,
    hint: "Give a directory that exists.",
  });
}

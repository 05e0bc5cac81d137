/** The entry point of the CLI: parses the command line, runs the command and returns its exit status. */
import { writeSync } from "node:fs";
import { HoldfastError } from "@holdfast/platform/error";
import { COMMAND_NAMES, loadCommand, loadCommands } from "./command-table.ts";
import type { Command } from "./command.ts";
import { EXITS, EXIT_OF, type Exit } from "./exit.ts";
import { commandText, helpDocument, helpWidth, overviewText, unknownCommand } from "./commands/help.ts";
import { type Interrupts, createInterrupts, interruptedError } from "./interrupts.ts";
import {
  type Sink,
  type Streams,
  createSink,
  errorDocument,
  errorText,
  findingsIn,
  saidText,
  toHoldfastError,
} from "./output/terminal.ts";
import { createMasking } from "@holdfast/core/mask";
import { NO_LINK, type PageLink } from "../ui/ui-state.ts";
import { STYLE_MARK, pageOf } from "./output/page.ts";
import { parseArguments, splitCommand } from "./parse-arguments.ts";
import { PROGRAM, openShell, repeatFlags } from "./shell.ts";

/** Runs one command line. Independent of what the commands do. */
export async function main(params: { readonly argv: readonly string[]; readonly version: string }): Promise<number> {
  const { mask } = createMasking();
  const streams = {
    out: createSink({ stream: process.stdout, mask, seal: STYLE_MARK }),
    err: createSink({ stream: process.stderr, mask, seal: STYLE_MARK }),
  };
  const interrupts = createInterrupts(process, leaveAtOnce);
  process.once("beforeExit", leftUndone);
  let exit: Exit;
  try {
    exit = await runCommandLine({ ...params, streams, interrupts });
  } catch (thrown) {
    exit = reportFailure({ thrown, argv: params.argv, err: streams.err });
  } finally {
    interrupts.stop();
  }
  await streams.out.drained();
  if (exit === "done" && streams.out.failure() !== undefined)
    exit = reportFailure({ thrown: lostOutput(streams.out), argv: params.argv, err: streams.err });
  await streams.err.drained();
  process.off("beforeExit", leftUndone);
  return EXITS[exit].status;
}

/** The text of `holdfast --help`; the build stores it in a file next to the bundle. */
export async function overview(): Promise<string> {
  return overviewText(await loadCommands());
}

async function runCommandLine(params: {
  readonly argv: readonly string[];
  readonly version: string;
  readonly streams: Streams;
  readonly interrupts: Interrupts;
}): Promise<Exit> {
  const { argv, streams, interrupts } = params;
  // Whether a flag before the command takes the next word depends on the flags of all commands.
  const specs = argv[0]?.startsWith("-") === true ? (await loadCommands()).map(({ spec }) => spec) : [];
  const { name, rest } = splitCommand(argv, specs);
  const command = name === undefined ? undefined : await findCommand(name);
  const { input, globals } = parseArguments(command?.spec ?? NO_COMMAND, rest);
  if (globals.on("version")) {
    streams.out.write(globals.on("json") ? `${JSON.stringify({ version: params.version })}\n` : `${params.version}\n`);
    return "done";
  }
  if (command === undefined || globals.on("help")) {
    const width = helpWidth(pageOf({ stream: process.stdout, env: process.env, noColorFlag: true, program: PROGRAM }));
    if (globals.on("json"))
      streams.out.write(`${JSON.stringify(await helpDocument(await loadCommands(), command?.spec), null, 2)}\n`);
    else if (command === undefined) streams.out.write(overviewText(await loadCommands(), width));
    else streams.out.write(commandText(command.spec, width));
    return "done";
  }
  const { signal } = interrupts;
  const reads = command.spec.reads === true;
  const windsDown = command.spec.windsDown === true;
  // A dry run only shows what would be done, so it needs no consent.
  const typed: { on(flag: string): boolean } = input;
  const consent = "dry-run" in command.spec.flags && typed.on("dry-run") ? "reads" : command.spec.consent;
  const shell = await openShell({ globals, streams, signal, commands: loadCommands, reads, consent, windsDown });
  const failed = (thrown: unknown): Exit => {
    const link = shell.linkOf(toHoldfastError(thrown));
    const exit = reportFailure({ thrown, argv, err: streams.err, program: shell.talk.program, link });
    const isFull = thrown instanceof HoldfastError && thrown.code === "DISK_FULL";
    return isFull && command.spec.waitsForSpace === true ? "waiting" : exit;
  };
  try {
    const work = command.start(shell, input);
    const exit = await (windsDown ? work : interrupts.race(work));
    const withheld = await shell.withheld();
    await shell.close();
    if (withheld !== null && exit === "done") return failed(withheld);
    // A command that another signal than Ctrl+C interrupted exits with that signal's status.
    return exit === "interrupted" ? (interrupts.exit() ?? exit) : exit;
  } catch (thrown) {
    const interrupted = interrupts.exit();
    const { done, failures } = await shell.close();
    // Another process took the run while this one stopped: the message names the orphaned run with its work.
    const isLost = thrown instanceof HoldfastError && thrown.code === "LEASE_LOST";
    if (interrupted === undefined || isLost) return failed(thrown);
    for (const failure of failures) failed(failure);
    if (failures.length === 0 || done.length > 0) failed(interruptedError(interrupted, done));
    return interrupted;
  }
}

const NO_COMMAND = { name: "", operands: [], flags: {} };

async function findCommand(name: string): Promise<Command> {
  const found = loadCommand(name);
  if (found === undefined) throw unknownCommand(name, await loadCommands());
  return await found;
}

/** Before the command line is parsed, only its words show whether the user wants JSON. */
function reportFailure(params: {
  readonly thrown: unknown;
  readonly argv: readonly string[];
  readonly err: Sink;
  readonly program?: string;
  readonly link?: PageLink;
}): Exit {
  const { program = PROGRAM, link = NO_LINK } = params;
  const error = toHoldfastError(params.thrown);
  const hint = error.hint === undefined ? null : repeatFlags(error.hint, program, COMMAND_NAMES);
  const words = params.argv.slice(0, [...params.argv, "--"].indexOf("--"));
  if (words.includes("--json")) {
    params.err.write(`${JSON.stringify(errorDocument(error, hint, link.json))}\n`);
  } else {
    const noColorFlag = words.includes("--no-color");
    const page = pageOf({ stream: process.stderr, env: process.env, noColorFlag, program });
    params.err.write(errorText(error, hint, page));
    if (link.text !== "") params.err.write(`${link.text}\n`);
    // The other findings of a preflight, errors first.
    for (const finding of findingsIn(error)) {
      const fix = finding.hint === null ? null : repeatFlags(finding.hint, program, COMMAND_NAMES);
      const code = finding.code === "USAGE" ? null : finding.code;
      params.err.write(saidText({ ...finding, code, hint: fix }, page));
    }
  }
  if (process.env["HOLDFAST_DEBUG"] === "1") params.err.write(`${stackOf(error)}\n`);
  return EXIT_OF[error.code];
}

/**
 * After the second signal there is no time to find out what was finished, so the message names the commands that show
 * it. It follows the listeners of the exit, because a live view removes itself there, and would remove the message too.
 */
function leaveAtOnce(status: number): void {
  process.once("exit", () => {
    try {
      writeSync(process.stderr.fd, "Stopped at once. Saved work: holdfast list. Unfinished work: holdfast doctor\n");
    } catch {
      // The terminal is closed. The exit status stays that of the signal.
    }
  });
  process.exit(status);
}

/** The event loop is empty before the command finished. This must never look like success. */
function leftUndone(): void {
  process.stderr.write("error: The command ended unexpectedly before it finished\n");
  process.exitCode = EXITS.failed.status;
}

/** The work is done, but the reader of the output would not know. */
function lostOutput(out: Sink): HoldfastError {
  const cause = out.failure();
  return new HoldfastError({
    code: "IO_FAILED",
    message: `The output could not be written: ${cause?.message ?? "unknown reason"}`,
    hint: "The command itself succeeded; only its output is incomplete.",
    cause,
  });
}

function stackOf(error: HoldfastError): string {
  const { cause } = error;
  return cause instanceof Error ? (cause.stack ?? cause.message) : (error.stack ?? error.message);
}

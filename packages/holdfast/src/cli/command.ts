/**
 * The interface between the CLI and its commands: flags, specifications, parsed input, and the shell that a command may
 * use.
 */
import type { EffectiveConfig } from "../config/effective-config.ts";
import type { DoctorReport } from "../diagnosis.ts";
import type { RunList } from "../open-store.ts";
import type { Holdfast } from "../holdfast.ts";
import type { Consent, ConsentScope } from "./consent.ts";
import type { Exit } from "./exit.ts";
import type { Page } from "./output/page.ts";
import type { Progress } from "./output/terminal.ts";

/** One flag. The parser, the help text, the completion and docs/cli.md are all generated from it. */
export type Flag = BooleanFlag | TextFlag;
interface BooleanFlag {
  readonly type: "boolean";
  readonly short?: string;
  readonly about: string;
  /** For an old spelling, which is accepted with a warning and documented nowhere: the current spelling. */
  readonly instead?: string;
}
interface TextFlag {
  readonly type: "text";
  readonly short?: string;
  /** The name of the value in the help text: "N", "DIR". */
  readonly value: string;
  readonly about: string;
  readonly instead?: string;
  /** The only allowed values; the parser checks them and the completion offers them. */
  readonly choices?: readonly string[];
  readonly completes?: Completes;
}
export type Flags = Readonly<Record<string, Flag>>;

/** The flags that are documented, without old spellings. */
export function currentFlags(flags: Flags): Flags {
  return Object.fromEntries(Object.entries(flags).filter(([, flag]) => flag.instead === undefined));
}

/** What the shell can offer for this argument. */
export type Completes = "run" | "address" | "command" | "directory" | "file" | "nothing";

interface Operand {
  readonly name: string;
  readonly about: string;
  readonly required: boolean;
  readonly completes: Completes;
  /** Takes RUN@7 as well, although the completion offers runs. */
  readonly alsoAddress?: true;
  readonly choices?: readonly string[];
  /** Words that other tools use, each with the choice that is meant; for the hint only. */
  readonly synonyms?: Readonly<Record<string, string>>;
  /** Only for the last operand: it may be repeated. */
  readonly many?: true;
}

export interface CommandSpec {
  readonly name: string;
  readonly summary: string;
  /** Paragraphs under the usage line. */
  readonly details: readonly string[];
  readonly operands: readonly Operand[];
  /** Whether the command accepts `-- PATH…`. */
  readonly paths?: true;
  readonly flags: Flags;
  /** Names that other tools or older versions have as flags, each with the config key that takes its place. */
  readonly configFlags?: Readonly<Record<string, string>>;
  /** The flags under headings, for the help text. A command with few flags has none. */
  readonly flagGroups?: Readonly<Record<string, readonly string[]>>;
  readonly examples: readonly Example[];
  /** The keys of the --json output, with an explanation. */
  readonly json: string;
  /** Which settings of the repository need the user's consent before this command. With --dry-run none does. */
  readonly consent: ConsentScope;
  /**
   * The command only reads: the store is opened for reading, and a broken config file is a warning and the defaults are
   * used.
   */
  readonly reads?: true;
  /** After a signal the command stops by itself and prints the result; main waits for it. */
  readonly windsDown?: true;
  /**
   * Continues a run. If the disk is full, the command exits with 7 (waiting for space), even before the run could
   * record that.
   */
  readonly waitsForSpace?: true;
  /** Left out of the list of commands: for shell scripts only. */
  readonly hidden?: true;
}

/** Commands whose name has a second word. */
export const SUBCOMMANDS = {
  format: ["import", "export", "convert", "validate", "mirror", "schema"],
  store: ["push", "fetch"],
} as const;

interface Example {
  readonly line: string;
  readonly about: string;
}

/** The command line, checked against the spec. Names that the spec does not have do not compile. */
export interface Input<F extends Flags = Flags> {
  on(name: NamesOf<F, "boolean">): boolean;
  /** The value of a flag; the last one if the flag is repeated. */
  text(name: NamesOf<F, "text">): string | undefined;
  texts(name: NamesOf<F, "text">): readonly string[];
  operand(at: number): string | undefined;
  readonly operands: readonly string[];
  /** The arguments after `--`. */
  readonly paths: readonly string[];
}
type NamesOf<F extends Flags, T extends Flag["type"]> = {
  [K in keyof F & string]: F[K] extends { readonly type: T } ? K : never;
}[keyof F & string];

/** What a command may use. All input and output goes through this interface. */
export interface Shell {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly json: boolean;
  /** --quiet: print results and errors only. */
  readonly quiet: boolean;
  readonly signal: AbortSignal;
  /** All commands, for help and completion. */
  commands(): Promise<readonly Command[]>;
  /**
   * Opens the store once; main closes it. Readers pass `create: false`. `pretend`: if there is no store, use one in
   * memory. `writes: false` opens it for reading, so that no file of the store changes; default: false for commands
   * that only read.
   */
  open(params: { readonly create: boolean; readonly pretend?: boolean; readonly writes?: boolean }): Promise<Holdfast>;
  /** Creates the store if `open` had to pretend one. */
  createStore(): Promise<Holdfast>;
  /** undefined if nothing was ever saved. A store that the user named and that does not exist is still an error. */
  openIfThere(params?: { readonly writes?: boolean }): Promise<Holdfast | undefined>;
  /** As `openIfThere` for reading, but opens only what a list of runs needs. */
  openRunList(): Promise<RunList | undefined>;
  /** Works even if the store cannot be opened. */
  doctor(): Promise<DoctorReport>;
  /** The settings in force. A setting that lacks consent keeps its default. */
  config(): Promise<EffectiveConfig>;
  readonly consent: Consent;
  /**
   * Registers work that Ctrl+C must not cut in half: main waits for it before it closes the store, and reports its
   * result.
   */
  finish<T>(work: Promise<T>, outcome: Outcome<T>): Promise<T>;

  /**
   * Prints data to stdout: the document under --json, the text otherwise. Prints nothing after a signal, because main
   * reports the result then.
   */
  print(report: Report): void;
  /**
   * Writes data to stdout; returns false once the reader has closed the stream (`| head -1`). "content" keeps its bytes
   * unless stdout is a terminal.
   */
  write(text: string, kind?: "message" | "content"): boolean;
  /** Prints a message to stderr; nothing under --quiet and --json. */
  notify(text: string): void;
  /** The page of stderr, for styled messages. */
  readonly talk: Page;
  readonly page: Page;
  /** Width of stdout now: the user may resize the window. */
  columns(): number;
  progress(): Progress;
  /** `enter`: what Enter means; default "no". The end of the input is always a no. */
  confirm(question: string, params?: { readonly enter?: "yes" | "no" }): Promise<"yes" | "no" | "cannot_ask">;
  /** Whether the user can be asked at a terminal. */
  readonly canAsk: boolean;
  /** Allowed only if `canAsk`. Enter returns `fallback`. */
  ask(question: string, fallback: string): Promise<string>;
}

/** Describes the result of the work to a user who pressed Ctrl+C meanwhile: a clause such as "fix-login@3 was saved". */
export interface Outcome<T> {
  /** null: nothing worth reporting. */
  readonly done: (value: T) => string | null;
  /** What was changed although the work failed; null: nothing was. */
  readonly failed?: () => Promise<string | null>;
}

interface Report {
  readonly json: () => unknown;
  readonly text: (page: Page) => string;
  /** The text is input for another program, such as a patch: its control characters are escaped on a terminal only. */
  readonly content?: true;
  /** The text is a file, a script or a path, so its lines are not wrapped. */
  readonly verbatim?: true;
}

/** The exports of a command's module. */
interface CommandModule<S extends CommandSpec> {
  readonly spec: S;
  readonly run: (shell: Shell, input: Input<S["flags"]>) => Promise<Exit>;
}

export interface Command {
  /** The heading of the help text under which the command is listed. */
  readonly group: string;
  readonly spec: CommandSpec;
  readonly start: (shell: Shell, input: Input) => Promise<Exit>;
}

export function command<const S extends CommandSpec>(
  load: () => Promise<CommandModule<S>>,
): () => Promise<Omit<Command, "group">> {
  return async () => {
    const { spec, run } = await load();
    return { spec, start: (shell, input) => run(shell, input) };
  };
}

export const GLOBAL_FLAGS = {
  json: { type: "boolean", about: "print JSON instead of text; errors too (on stderr)" },
  store: {
    type: "text",
    value: "STORE",
    about: "use this store: a directory or a postgres:// URL",
    completes: "directory",
  },
  cwd: { type: "text", value: "DIR", about: "run as if started in this directory", completes: "directory" },
  "no-config": { type: "boolean", about: "ignore the repository's holdfast.config.yaml and .holdfast/" },
  trust: { type: "boolean", about: "consent to the repository's settings, see `holdfast help trust`" },
  "no-color": { type: "boolean", about: "no colours, even on a terminal" },
  quiet: { type: "boolean", short: "q", about: "print results and errors only, no notes and no progress" },
  help: { type: "boolean", short: "h", about: "explain the command" },
  version: { type: "boolean", short: "V", about: "print the version" },
} as const satisfies Flags;

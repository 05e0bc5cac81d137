import type { EffectiveConfig } from "../config/effective-config.ts";
import type { DoctorReport } from "../diagnosis.ts";
import type { Holdfast } from "../holdfast.ts";
import type { Consent, ConsentScope } from "./consent.ts";
import type { Exit } from "./exit.ts";
import type { Page } from "./output/page.ts";
import type { Progress } from "./output/terminal.ts";

/** One flag. The parser, the help text, the completion and docs/cli.md are all made from this. */
export type Flag = BooleanFlag | TextFlag;
interface BooleanFlag {
  readonly type: "boolean";
  readonly short?: string;
  readonly about: string;
  /** An old spelling, understood with a warning and shown nowhere: what to write today. */
  readonly instead?: string;
}
interface TextFlag {
  readonly type: "text";
  readonly short?: string;
  /** What to call the value in the help: "N", "DIR". */
  readonly value: string;
  readonly about: string;
  readonly instead?: string;
  /** The only values there are; checked by the parser, offered by the completion. */
  readonly choices?: readonly string[];
  readonly completes?: Completes;
}
export type Flags = Readonly<Record<string, Flag>>;

/** Those that people are told about. */
export function currentFlags(flags: Flags): Flags {
  return Object.fromEntries(Object.entries(flags).filter(([, flag]) => flag.instead === undefined));
}

/** What the shell can offer in this place. */
export type Completes = "run" | "address" | "command" | "directory" | "file" | "nothing";

interface Operand {
  readonly name: string;
  readonly about: string;
  readonly required: boolean;
  readonly completes: Completes;
  readonly choices?: readonly string[];
  /** The last one only: any number of them may follow. */
  readonly many?: true;
}

export interface CommandSpec {
  readonly name: string;
  readonly summary: string;
  /** Paragraphs under the usage line. */
  readonly details: readonly string[];
  readonly operands: readonly Operand[];
  /** Does `-- PATH…` mean something here? */
  readonly paths: boolean;
  readonly flags: Flags;
  readonly examples: readonly Example[];
  /** The shape that --json prints, in words and keys. */
  readonly json: string;
  /** Which settings of the repository need the user's consent before this command; with --dry-run none does. */
  readonly consent: ConsentScope;
  /** Only reads: the store is opened for reading, a broken config file is a warning, and the defaults are used. */
  readonly reads?: true;
  /** Winds down by itself after a signal and has the last word; main waits for it. */
  readonly windsDown?: true;
  /** Continues a run: one that meets a full disk waits for space (exit 7), also when that is before the run could record it. */
  readonly waitsForSpace?: true;
  /** Left out of the list of commands: for shells, not for people. */
  readonly hidden?: true;
}

interface Example {
  readonly line: string;
  readonly about: string;
}

/** What was typed, checked against the spec. Names that the spec does not have do not compile. */
export interface Input<F extends Flags = Flags> {
  on(name: NamesOf<F, "boolean">): boolean;
  /** Given more than once, the last one counts. */
  text(name: NamesOf<F, "text">): string | undefined;
  texts(name: NamesOf<F, "text">): readonly string[];
  operand(at: number): string | undefined;
  readonly operands: readonly string[];
  /** What followed `--`. */
  readonly paths: readonly string[];
}
type NamesOf<F extends Flags, T extends Flag["type"]> = {
  [K in keyof F & string]: F[K] extends { readonly type: T } ? K : never;
}[keyof F & string];

/** What a command may use. Everything that touches the world comes through here. */
export interface Shell {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly json: boolean;
  /** --quiet: results and errors only. */
  readonly quiet: boolean;
  readonly signal: AbortSignal;
  /** All commands, for help and completion. */
  commands(): Promise<readonly Command[]>;
  /**
   * Opened once, closed by main. Readers pass `create: false`; `pretend`: where there is none, one that is kept nowhere. `writes`: false opens it for
   * reading, so that no file of the store changes; default: whether the command is not one of those that only read.
   */
  open(params: { readonly create: boolean; readonly pretend?: boolean; readonly writes?: boolean }): Promise<Holdfast>;
  /** Undefined where nothing was ever saved. A store that was named and is not there is an error all the same. */
  openIfThere(params?: { readonly writes?: boolean }): Promise<Holdfast | undefined>;
  /** Works also where the store cannot be opened. */
  doctor(): Promise<DoctorReport>;
  /** The settings in force. What needs consent and has none keeps its default. */
  config(): Promise<EffectiveConfig>;
  readonly consent: Consent;
  /** Work that Ctrl+C must not cut in half: main waits for it before it closes the store, and says how it ended. */
  finish<T>(work: Promise<T>, outcome: Outcome<T>): Promise<T>;

  /** Data, to stdout: the document under --json, the text otherwise. Silent once a signal came: main has the word. */
  print(report: Report): void;
  /** Data, to stdout; false once the reader has gone away (`| head -1`). Content keeps its bytes unless a terminal shows it. */
  write(text: string, kind?: "message" | "content"): boolean;
  /** Talk, to stderr; silent under --quiet and --json. */
  say(text: string): void;
  /** Page of stderr, for talk with style. */
  readonly talk: Page;
  readonly page: Page;
  /** Width of stdout at this moment: windows are resized. */
  columns(): number;
  progress(): Progress;
  confirm(question: string): Promise<"yes" | "no" | "cannot_ask">;
  /** Is there somebody at a terminal? */
  readonly canAsk: boolean;
  /** Only where `canAsk`. Enter gives `fallback`. */
  ask(question: string, fallback: string): Promise<string>;
}

/** How the work is told to somebody who pressed Ctrl+C meanwhile: a clause such as "fix-login@3 was saved". */
export interface Outcome<T> {
  /** null: nothing worth a word. */
  readonly done: (value: T) => string | null;
  /** What is true although it failed; null: nothing was changed. */
  readonly failed?: () => Promise<string | null>;
}

interface Report {
  readonly json: () => unknown;
  readonly text: (page: Page) => string;
  /** The text holds what another program reads, such as a patch: its control characters are escaped on a terminal only. */
  readonly content?: true;
}

/** What the file of a command exports. */
interface CommandModule<S extends CommandSpec> {
  readonly spec: S;
  readonly run: (shell: Shell, input: Input<S["flags"]>) => Promise<Exit>;
}

export interface Command {
  readonly spec: CommandSpec;
  readonly start: (shell: Shell, input: Input) => Promise<Exit>;
}

export function command<const S extends CommandSpec>(load: () => Promise<CommandModule<S>>): () => Promise<Command> {
  return async () => {
    const { spec, run } = await load();
    return { spec, start: (shell, input) => run(shell, input) };
  };
}

export const GLOBAL_FLAGS = {
  json: { type: "boolean", about: "print one JSON document instead of text; errors too (on stderr)" },
  store: { type: "text", value: "DIR", about: "use the store in this directory", completes: "directory" },
  cwd: { type: "text", value: "DIR", about: "act as if started in this directory", completes: "directory" },
  "no-config": { type: "boolean", about: "ignore the repository's holdfast.config.yaml and .holdfast/" },
  trust: { type: "boolean", about: "consent to the repository's settings, see `holdfast help trust`" },
  "no-color": { type: "boolean", about: "no colours, even on a terminal" },
  quiet: { type: "boolean", short: "q", about: "no notes and no progress on stderr; errors still show" },
  help: { type: "boolean", short: "h", about: "explain the command" },
  version: { type: "boolean", short: "V", about: "print the version" },
} as const satisfies Flags;

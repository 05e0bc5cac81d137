// What the SQL store needs of a database. The SQL is written once, with `?` for parameters, in the part of the language that SQLite and
// PostgreSQL share: ON CONFLICT, LIMIT, LEFT JOIN, no functions of one of them alone. The schema differs in the names of types (schema.ts).

import type { HoldfastError } from "@holdfast/platform/error";
import type { HighWaterMark } from "./high-water.ts";

export type SqlValue = string | number | Uint8Array | null;
export type Row = Readonly<Record<string, unknown>>;

export interface ReadTransaction {
  all(sql: string, params?: readonly SqlValue[]): Promise<readonly Row[]>;
}

export interface WriteTransaction extends ReadTransaction {
  /** Has no answer, so that a driver behind a network can send it with the next question or with COMMIT. */
  run(sql: string, params?: readonly SqlValue[]): void;
}

/** What a write transaction needs to itself. A database whose write transactions overlap locks it before anything is read. */
export interface Claims {
  /** "begin": no other write transaction may rely on a chunk that it has not written. */
  readonly sweep: "none" | "begin";
  /** Decides over the leases of all runs. */
  readonly slots: boolean;
}

/** What became of a transaction whose answer was lost, as the database shows it afterwards. */
export type LostAnswer = "committed" | "repeat" | "unknown";

export interface Driver {
  /** Name and version, for `stats`. */
  readonly engine: string;
  readonly durability: string;
  /** For messages. Nothing may assume that it is a directory. */
  readonly location: string;
  /**
   * One transaction: durable when the promise resolves, rolled back when `work` throws. `work` is repeated after a conflict with another
   * transaction. `undisturbed`: no other connection has committed since the last transaction of this driver, so what was read then still holds.
   * `examine` is asked when the connection was lost during the commit, in a transaction that begins after the lost one has ended.
   */
  write<T>(
    claims: Claims,
    work: (tx: WriteTransaction, undisturbed: boolean) => Promise<T>,
    examine: (tx: ReadTransaction) => Promise<LostAnswer>,
  ): Promise<T>;
  /** Ends a statement that reads rows in order to change them: locks them where write transactions overlap. */
  readonly forUpdate: "" | " FOR UPDATE";
  /**
   * Fails the transaction as a conflict, unless a run's row and the number of sweeps are still as given: number, `head`, sweeps. Lets a lease
   * holder write without reading first. null: `undisturbed` says it at no cost.
   */
  readonly checkHead: string | null;
  /** Several machines can use the database. */
  readonly shared: boolean;
  /** Rows are numbered in the order in which they are committed. */
  readonly ordersCommits: boolean;
  /** Asks the database for its time in milliseconds, as the column `now`. null: the clock of the machine is the only one. */
  readonly clock: string | null;
  /** One snapshot. `work` reads only, and is repeated when the snapshot turns out not to be one. */
  read<T>(work: (tx: ReadTransaction) => Promise<T>): Promise<T>;
  /** Differs after every commit of another connection. Cheap: it is asked several times a second. null: only a read can tell. */
  version(): string | null;
  /** Differs after each signal, a few seconds late at worst, and is cheap: for polls of many processes. Absent where `version` is cheap. */
  readonly changes?: () => string;
  /** A signal was committed: `changes` differs, here and in other processes. */
  readonly signalled?: () => void;
  /** Calls back after commits, also of other processes, perhaps too often. `patient`: later, and at less cost. Returns what ends it. */
  onChange(listener: () => void, patient: boolean): () => void;
  /** Where the record of how far each run had come is kept, outside the database; null where there is no such place. */
  readonly highWater: HighWaterMark | null;
  /** Counts how often the snapshots of a reader moved to other files; always 0 for a driver that writes. */
  readonly generation: () => number;
  /** Problems of the database's own structure and of the files around it. */
  inspect(): Promise<readonly string[]>;
  /** Size of the database. Cheap. */
  bytes(): Promise<number>;
  /** Gives space that deleted rows have left back to the file system. */
  compact(): Promise<void>;
  /** Frees what is kept for the last entries on a full disk; returns the bytes. */
  makeRoom(): number;
  /** Turns what the database throws into our one kind of error. */
  toError(error: unknown): HoldfastError;
  /** Nothing of the transaction was written, and one member of a group may have caused the error: each is tried by itself. */
  blamesOne(error: unknown): boolean;
  /** After this error the state on disk is unknown: nothing more may be written. */
  losesTrust(error: unknown): boolean;
  close(): Promise<void>;
}

/** Values of an IN list, in statements of few different lengths, so that prepared ones are used again. `sql` has `(??)` where the list belongs. */
export async function allIn(
  tx: ReadTransaction,
  sql: string,
  values: readonly SqlValue[],
  before: readonly SqlValue[] = [],
): Promise<readonly Row[]> {
  const found: Row[] = [];
  for (let at = 0; at < values.length;) {
    const left = values.length - at;
    const size = left >= 64 ? 64 : left >= 8 ? 8 : 1;
    const page = values.slice(at, at + size);
    found.push(...(await tx.all(sql.replace("??", page.map(() => "?").join(", ")), [...before, ...page])));
    at += size;
  }
  return found;
}

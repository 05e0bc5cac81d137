import type { HoldfastError } from "@holdfast/platform/error";
import type { HighWaterMark } from "./high-water.ts";

/*
 * What the SQL store needs of a database. The SQL is written once, with `?` for parameters, in the part of the language that SQLite and
 * PostgreSQL share: ON CONFLICT, LIMIT, LEFT JOIN, no functions of one of them alone. The schema differs in the names of four types (schema.ts).
 */

export type SqlValue = string | number | Uint8Array | null;
export type Row = Readonly<Record<string, unknown>>;

export interface ReadTransaction {
  all(sql: string, params?: readonly SqlValue[]): Promise<readonly Row[]>;
}

export interface WriteTransaction extends ReadTransaction {
  /** Has no answer, so that a driver behind a network can send it with the next question or with COMMIT. */
  run(sql: string, params?: readonly SqlValue[]): void;
}

export interface Driver {
  /** Name and version, for `stats`. */
  readonly engine: string;
  readonly durability: string;
  /** For messages. Nothing may assume that it is a directory. */
  readonly location: string;
  /**
   * One transaction: durable when the promise resolves, rolled back when `work` throws. Write transactions of one database do not overlap within
   * a process. `undisturbed`: no other connection has committed since the last transaction of this driver, so what was read then still holds.
   */
  write<T>(work: (tx: WriteTransaction, undisturbed: boolean) => Promise<T>): Promise<T>;
  /** One snapshot. `work` reads only, and is repeated when the snapshot turns out not to be one. */
  read<T>(work: (tx: ReadTransaction) => Promise<T>): Promise<T>;
  /** Differs after every commit of another connection. Cheap: it is asked several times a second. */
  version(): string;
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

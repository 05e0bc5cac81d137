import type { Row, SqlValue } from "@holdfast/core/store-sql/driver";
import pg from "pg";

/*
 * Statements that leave in one packet and are answered in one. pg ends each statement with a Sync of its own, which the server answers at once; here
 * one Sync ends them all. After an error the server skips the rest up to the Sync: a COMMIT behind a statement that failed is not made.
 */

export interface Statement {
  readonly sql: string;
  readonly params: readonly SqlValue[];
  /** Gets rows and command; absent: neither is needed. */
  readonly answer?: ((rows: readonly Row[], command: string) => void) | undefined;
}

interface Prepared {
  readonly text: string;
  /** Empty: it is parsed each time. */
  readonly name: string;
}

interface Column {
  readonly name: string;
  readonly parse: (value: string) => unknown;
}

/** What a connection has prepared, by name; of statements whose rows were asked for, with their columns. */
const prepared = new WeakMap<pg.Connection, Map<string, readonly Column[] | null>>();

/** One query to pg, which pipelines it with others on its connection. A connection on which one has failed must not be used again. */
export class Batch extends pg.Query {
  /** Fails the batch, and ends the connection, when there is no answer for so long. */
  readonly query_timeout?: number;
  /** What pg calls at the end; it wraps this one with its timer. */
  callback: (error: Error | null | undefined) => void;
  readonly #statements: readonly Statement[];
  #known = new Map<string, readonly Column[] | null>();
  #at = 0;
  #rows: Row[] = [];
  #columns: readonly Column[] | null = null;

  /** `done` is called once. */
  constructor(
    statements: readonly Statement[],
    params: { readonly timeoutMs: number; readonly done: (error: Error | null) => void },
  ) {
    super("");
    this.#statements = statements;
    if (params.timeoutMs > 0) this.query_timeout = params.timeoutMs;
    this.callback = (error) => params.done(error ?? null);
  }

  /** Returns what prevents it; pg then fails the batch. */
  override submit = (connection: pg.Connection): Error | null => {
    this.#known = prepared.get(connection) ?? new Map();
    prepared.set(connection, this.#known);
    connection.stream.cork();
    try {
      for (const statement of this.#statements) this.#send(connection, statement);
      connection.sync();
      return null;
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    } finally {
      connection.stream.uncork();
    }
  };

  #send(connection: pg.Connection, { sql, params, answer }: Statement): void {
    const { text, name } = prepare(sql);
    const columns = this.#known.get(name);
    if (columns === undefined) connection.parse({ text, name, types: [] }, true);
    if (columns === undefined && name !== "") this.#known.set(name, null);
    connection.bind({ statement: name, values: params.map(toParameter) }, true);
    if (answer !== undefined && (columns ?? null) === null) connection.describe({ type: "P" }, true);
    connection.execute(null, true);
  }

  /* The messages of the server, as pg passes them on. */

  handleRowDescription(message: { readonly fields: readonly pg.FieldDef[] }): void {
    this.#columns = message.fields.map(({ name, dataTypeID }) => ({ name, parse: parserOf(dataTypeID) }));
    const statement = this.#statements[this.#at];
    const { name } = prepare(statement?.sql ?? "");
    if (name !== "") this.#known.set(name, this.#columns);
  }

  handleDataRow(message: { readonly fields: readonly (string | null)[] }): void {
    const statement = this.#statements[this.#at];
    if (statement?.answer === undefined) return;
    const columns = this.#columns ?? this.#known.get(prepare(statement.sql).name) ?? [];
    const row: Record<string, unknown> = {};
    for (const [i, { name, parse }] of columns.entries()) {
      const value = message.fields[i];
      row[name] = value === null || value === undefined ? null : parse(value);
    }
    this.#rows.push(row);
  }

  handleCommandComplete(message: { readonly text: string }): void {
    const { answer } = this.#statements[this.#at] ?? {};
    const rows = this.#rows;
    this.#at += 1;
    this.#rows = [];
    this.#columns = null;
    answer?.(rows, message.text.split(" ", 1)[0] ?? "");
  }

  handleError(error: Error): void {
    this.callback(error);
  }

  handleReadyForQuery(): void {
    this.callback(null);
  }
}

/** The statements of the store are few. They are prepared once on each connection. */
const statements = new Map<string, Prepared>();

function prepare(sql: string): Prepared {
  const known = statements.get(sql);
  if (known !== undefined) return known;
  let parameters = 0;
  const text = sql.replaceAll("?", () => `$${(parameters += 1)}`);
  // Others are sent once, or have no plan.
  const isPrepared =
    /^(?:BEGIN|COMMIT|ROLLBACK)\b/.test(sql) || (parameters > 0 && /^(?:SELECT|INSERT|UPDATE|DELETE)\b/.test(sql));
  const made = { text, name: isPrepared ? `holdfast_${statements.size}` : "" };
  statements.set(sql, made);
  return made;
}

/*
 * TEXT of PostgreSQL cannot hold the character NUL. It is written as U+0001 U+0002, and U+0001 as U+0001 U+0001. JSON has neither, since it escapes
 * control characters.
 */
const ESCAPE = "\u0001";

function toParameter(value: SqlValue): string | Buffer | null {
  if (value === null) return null;
  if (typeof value === "number") return String(value);
  if (typeof value !== "string") return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  if (!(value.includes("\0") || value.includes(ESCAPE))) return value;
  return value.replaceAll(ESCAPE, ESCAPE + ESCAPE).replaceAll("\0", `${ESCAPE}\u0002`);
}

function fromText(value: string): string {
  if (!value.includes(ESCAPE)) return value;
  // oxlint-disable-next-line no-control-regex
  return value.replaceAll(/\u0001([\u0001\u0002])/g, (_, next: string) => (next === ESCAPE ? ESCAPE : "\0"));
}

const NUMBERS: ReadonlySet<number> = new Set([20, 21, 23, 26, 1700]);
const BYTEA = 17;

export function parserOf(type: number): (value: string) => unknown {
  if (NUMBERS.has(type)) return Number;
  return type === BYTEA ? (value) => Buffer.from(value.slice(2), "hex") : fromText;
}

import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { crc32 } from "node:zlib";
import type {
  Claims,
  Driver,
  LostAnswer,
  ReadTransaction,
  Row,
  SqlValue,
  WriteTransaction,
} from "@holdfast/core/store-sql/driver";
import type { HighWaterMark } from "@holdfast/core/store-sql/high-water";
import pg from "pg";
import { Batch, type Statement, parserOf } from "./batch.ts";
import { InDoubt, NoAnswer, isConflict, isLost, losesTrust, postgresError, sqlState } from "./errors.ts";
import { NOTICE_MS, createNotices } from "./notices.ts";
import type { Target } from "./target.ts";

/*
 * The driver over pg. What one turn asks is one batch (batch.ts): `run` does not wait. The first save of a run takes two round trips: one locks and
 * reads, one writes and commits. While the handle holds the run's lease, the next ones take one (`checkHead`).
 *
 * Transactions are READ COMMITTED. What keeps them apart are locks, always in this order: the advisory locks of a transaction, the rows of its runs
 * by id, the rows of chunks by digest. Every table with a run's number is written under the lock of the run's row.
 */

/** A session that holds locks and sends nothing for this long belongs to a frozen or unreachable process. The server ends it. */
const IDLE_MS = 30_000;
/** Longer than IDLE_MS: a frozen process must not fail the others. */
const LOCK_WAIT_MS = 45_000;
/** A statement of a write transaction without an answer for this long is lost. */
const ANSWER_MS = 60_000;
export const MOST_CONNECTIONS = 6;
const MOST_CONFLICTS = 20;

export interface PostgresDriver extends Driver {
  /** One transaction outside of the store's own, for the set-up of the tables. */
  inTransaction<T>(begin: string, work: (tx: WriteTransaction) => Promise<T>): Promise<T>;
}

export interface ServerFacts {
  readonly version: string;
  readonly durability: string;
  /** A standby, or a session that may only read. */
  readonly readOnly: boolean;
}

/** A server that does not answer. Reported once until it answers again. */
export interface ServerWait {
  /** Without a password. */
  readonly location: string;
  /** When the first call that waits gives up, by the clock of this machine. */
  readonly until: number;
}

/** Silence for longer than this is reported. */
const SILENT_MS = 5000;

export async function connectDriver(params: {
  readonly target: Target;
  readonly highWater: () => HighWaterMark | null;
  /** The caller has a clock of its own, as tests do. */
  readonly ownClock: boolean;
  /** How long work waits for a server that is gone or restarts, once it has answered. */
  readonly patienceMs: number;
  readonly onWait?: ((wait: ServerWait) => void) | undefined;
}): Promise<PostgresDriver & { readonly facts: ServerFacts }> {
  const { target, patienceMs } = params;
  const { location, schema } = target;
  const options = {
    ...target.client,
    types: TYPES,
    max: MOST_CONNECTIONS,
    idleTimeoutMillis: 10_000,
    allowExitOnIdle: true,
    // A connection without these settings is not used.
    onConnect: async (client: pg.ClientBase) => void (await client.query(sessionSettings(schema))),
    // An option of the client, which the declarations of the pool do not know.
    pipeline: true,
  };
  const pool = new pg.Pool(options);
  // A lost connection fails the statements that wait for it. Without these listeners it would end the process as well.
  pool.on("error", () => {});
  pool.on("connect", (client) => void client.on("error", () => {}));
  const facts = await readFacts(pool);
  /** Transactions of this handle exclude each other, also one that the server still executes after its connection was lost. */
  const ownLock = randomBytes(8).readBigInt64BE().toString();
  const notices = createNotices({
    target,
    own: ownLock,
    send: (channel) =>
      connected(NOTICE_MS, (session) => session.checked((tx) => tx.all("SELECT pg_notify(?, ?)", [channel, ownLock]))),
  });

  /** When each call that is under way gives up, the first one first. */
  const waiting = new Set<{ readonly until: number }>();
  let silence: NodeJS.Timeout | undefined;
  /** The server has answered, or a call begins or ends. */
  function restartSilence(): void {
    clearTimeout(silence);
    silence = undefined;
    if (params.onWait === undefined || waiting.size === 0) return;
    silence = setTimeout(() => {
      const [first] = waiting;
      if (first !== undefined) params.onWait?.({ location, until: first.until });
    }, SILENT_MS).unref();
  }

  async function connected<T>(answerMs: number, work: (session: Session) => Promise<T>): Promise<T> {
    const client = await pool.connect();
    const session = sessionOn(client, answerMs, restartSilence);
    try {
      return await work(session);
    } catch (error) {
      // What the caller refused; without a transaction it is a warning of the server.
      session.run("ROLLBACK");
      throw error;
    } finally {
      session.flush();
      // After an error of the server the connection is not used again: statements may still be under way.
      client.release(session.hasFailed());
    }
  }

  /** Repeats what has changed nothing, after conflicts and while the server is gone. */
  async function patiently<T>(work: () => Promise<T>): Promise<T> {
    const until = process.uptime() * 1000 + patienceMs;
    const call = { until: Date.now() + patienceMs };
    waiting.add(call);
    if (waiting.size === 1) restartSilence();
    try {
      for (let conflicts = 0, losses = 0; ;) {
        try {
          return await work();
        } catch (error) {
          if (isConflict(error) && conflicts < MOST_CONFLICTS) conflicts += 1;
          else if (isLost(error) && process.uptime() * 1000 < until) losses += 1;
          else throw error;
        }
        await delay(Math.random() * Math.min(1000, 10 * 2 ** Math.min(conflicts + losses, 7)));
      }
    } finally {
      waiting.delete(call);
      if (waiting.size === 0) restartSilence();
    }
  }

  async function write<T>(
    claims: Claims,
    work: (tx: WriteTransaction, undisturbed: boolean) => Promise<T>,
    examine: (tx: ReadTransaction) => Promise<LostAnswer>,
  ): Promise<T> {
    /** What a transaction would have answered whose commit is in doubt. */
    let doubt: { readonly result: T } | undefined;
    try {
      const result = await patiently(() =>
        connected(ANSWER_MS, async (session) => {
          session.run("BEGIN ISOLATION LEVEL READ COMMITTED");
          session.run(LOCKS[claims.sweep], [ownLock, LOCK_SPACE, lockKey(schema, "sweep")]);
          if (claims.slots) session.run(LOCK_SLOTS, [LOCK_SPACE, lockKey(schema, "slots")]);
          if (doubt !== undefined) {
            const answer = await session.checked(examine);
            if (answer === "unknown") throw new InDoubt();
            const { result: earlier } = doubt;
            doubt = undefined;
            if (answer === "committed") {
              await session.end("ROLLBACK");
              return earlier;
            }
          }
          const result = await session.checked((tx) => work(tx, false));
          doubt = { result };
          try {
            await session.end("COMMIT");
          } catch (error) {
            if (sqlState(error) === undefined) throw new NoAnswer(error);
            if (!isLost(error)) doubt = undefined;
            throw error;
          }
          doubt = undefined;
          return result;
        }),
      );
      notices.committed();
      return result;
    } catch (error) {
      // Whatever kept the question from being answered: "nothing was written" would be a guess.
      throw doubt === undefined ? error : new InDoubt(error);
    }
  }

  async function inTransaction<T>(begin: string, work: (tx: WriteTransaction) => Promise<T>): Promise<T> {
    return connected(0, async (session) => {
      session.run(begin);
      const result = await session.checked(work);
      await session.end("COMMIT");
      return result;
    });
  }

  return {
    facts,
    engine: `PostgreSQL ${facts.version}`,
    durability: facts.durability,
    location,
    forUpdate: " FOR UPDATE",
    checkHead: CHECK_HEAD,
    shared: true,
    ordersCommits: false,
    clock: params.ownClock ? null : "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now",
    get highWater() {
      return params.highWater();
    },
    inTransaction,
    write,
    // A server that is gone without a word is noticed here: the system would wait for a quarter of an hour.
    read: (work) => patiently(() => connected(patienceMs, (session) => readSnapshot(session, work))),
    version: () => null,
    changes: notices.version,
    signalled: notices.signalled,
    onChange: notices.onChange,
    generation: () => 0,
    async inspect() {
      const { durability } = await readFacts(pool);
      return /fsync=off|full_page_writes=off/.test(durability)
        ? [`A power cut can damage the database: the server has ${durability}`]
        : [];
    },
    async bytes() {
      const { rows } = await pool.query<{ bytes: number }>(
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) AS bytes FROM pg_class c WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p')",
        [schema],
      );
      return rows[0]?.bytes ?? 0;
    },
    // Autovacuum makes the space of deleted rows usable again.
    compact: () => Promise.resolve(),
    makeRoom: () => 0,
    toError: (error) => postgresError(error, location),
    losesTrust,
    blamesOne: (error) => !(error instanceof InDoubt) && !isLost(error) && !isConflict(error),
    async close() {
      // Idle connections do not keep the process alive, and it must not end before they are closed.
      const alive = setInterval(() => {}, 1000);
      try {
        await notices.close();
        await pool.end();
      } finally {
        clearInterval(alive);
      }
    },
  };
}

/** The answer to COMMIT says nothing about what was read, so nothing waits for it. The connection answers what is asked next after it. */
async function readSnapshot<T>(session: Session, work: (tx: ReadTransaction) => Promise<T>): Promise<T> {
  session.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  const result = await session.checked(work);
  session.run("COMMIT");
  return result;
}

/** Lets the server end the session of a frozen process or a vanished machine, which would otherwise keep its locks for hours. */
export const RELEASE_LOCKS = `SET idle_in_transaction_session_timeout TO ${IDLE_MS}; SET tcp_keepalives_idle TO 10; SET tcp_keepalives_interval TO 5; SET tcp_keepalives_count TO 4`;

/** Unqualified names mean this schema alone, and a setting of the role cannot make commits less durable. */
function sessionSettings(schema: string): string {
  return [
    `SET search_path TO "${schema}"`,
    "SET bytea_output TO hex",
    RELEASE_LOCKS,
    `SET lock_timeout TO ${LOCK_WAIT_MS}`,
    "SET statement_timeout TO 0",
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
  ].join("; ");
}

async function readFacts(pool: pg.Pool): Promise<ServerFacts> {
  const { rows } = await pool.query<Record<string, string>>(
    "SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync, current_setting('full_page_writes') AS pages, current_setting('synchronous_commit') AS synchronous, current_setting('transaction_read_only') AS reading",
  );
  const { version = "", fsync = "", pages = "", synchronous = "", reading = "" } = rows[0] ?? {};
  return {
    version: version.split(" ")[0] ?? version,
    durability: `fsync=${fsync}, full_page_writes=${pages}, synchronous_commit=${synchronous}`,
    readOnly: reading === "on",
  };
}

/**
 * Locks a run's row. 1 / 0 fails the transaction when the row, or the number of sweeps, is not what the store wrote last: all that follows is
 * sent in the same packet, and the server refuses it.
 */
const CHECK_HEAD =
  "SELECT 1 / count(*) FROM (SELECT run FROM runs WHERE run = ? AND head = ? AND coalesce((SELECT value FROM meta WHERE key = 'store/sweeps'), '0') = ? FOR UPDATE) AS unchanged";

/**
 * Before anything else. A sweep begins when no other write transaction is under way, so each of them knows the number of sweeps. Slots are decided one
 * after the other.
 */
const LOCKS = {
  none: "SELECT pg_advisory_xact_lock(?), pg_advisory_xact_lock_shared(?, ?)",
  begin: "SELECT pg_advisory_xact_lock(?), pg_advisory_xact_lock(?, ?)",
} as const satisfies Record<Claims["sweep"], string>;
const LOCK_SLOTS = "SELECT pg_advisory_xact_lock(?, ?)";

/** Distinguishes our advisory locks from those of other programs in the same database. */
const LOCK_SPACE = 0x486f6c64;

function lockKey(schema: string, purpose: string): number {
  return crc32(`${schema} ${purpose}`) | 0;
}

/** Held while the tables of a schema are created. */
export function schemaLock(schema: string): string {
  return `SELECT pg_advisory_xact_lock(${LOCK_SPACE}, ${lockKey(schema, "tables")})`;
}

/**
 * The same lock, held by the session, as the column `locked`. A session that waits for a lock would block an index that is created concurrently, so
 * the caller asks again.
 */
export function trySchemaLock(schema: string): string {
  return `SELECT pg_try_advisory_lock(${LOCK_SPACE}, ${lockKey(schema, "tables")}) AS locked`;
}

interface Session {
  run(sql: string, params?: readonly SqlValue[]): void;
  /** Throws the first error of all statements so far: after it the server refuses the others with a less helpful one. */
  checked<T>(work: (tx: WriteTransaction) => Promise<T>): Promise<T>;
  /** COMMIT of a transaction that has failed is answered with ROLLBACK and without an error. */
  end(command: "COMMIT" | "ROLLBACK"): Promise<void>;
  /** Sends what waits for the end of the turn. */
  flush(): void;
  hasFailed(): boolean;
}

/** What is asked in one turn is one batch. `onAnswer` is called when the server has executed one. */
function sessionOn(client: pg.PoolClient, answerMs: number, onAnswer: () => void): Session {
  let failure: { readonly error: unknown } | undefined;
  let waiting: Statement[] = [];
  /** Called when the statements that wait have failed. */
  let refused: ((error: Error) => void)[] = [];

  function send(statement: Statement): void {
    if (waiting.length === 0) process.nextTick(flush);
    waiting.push(statement);
  }

  function flush(): void {
    if (waiting.length === 0) return;
    const [statements, rejects] = [waiting, refused];
    [waiting, refused] = [[], []];
    const done = (error: Error | null): void => {
      if (error === null) return onAnswer();
      failure ??= { error };
      for (const reject of rejects) reject(error);
    };
    // Statements that nothing waits for are followed by one that something waits for, or the connection is given back.
    client.query(new Batch(statements, { timeoutMs: rejects.length === 0 ? 0 : answerMs, done }));
  }

  function ask<T>(
    sql: string,
    params: readonly SqlValue[],
    answer: (rows: readonly Row[], command: string) => T,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      send({ sql, params, answer: (rows, command) => resolve(answer(rows, command)) });
      refused.push(reject);
    });
  }

  const tx: WriteTransaction = {
    all: (sql, params = []) => ask(sql, params, (rows) => rows),
    run: (sql, params = []) => send({ sql, params }),
  };
  return {
    run: tx.run,
    flush,
    hasFailed: () => failure !== undefined,
    async checked(work) {
      let result;
      try {
        result = await work(tx);
      } catch (error) {
        throw failure === undefined ? error : failure.error;
      }
      if (failure !== undefined) throw failure.error;
      return result;
    },
    async end(command) {
      let answer: string;
      try {
        answer = await ask(command, [], (_, found) => found);
      } catch (error) {
        throw failure === undefined ? error : failure.error;
      }
      if (failure !== undefined) throw failure.error;
      if (answer !== command) throw new Error(`${command} was answered with ${answer}`);
    },
  };
}

/** For what pg itself parses. */
const TYPES: pg.CustomTypesConfig = { getTypeParser: parserOf };

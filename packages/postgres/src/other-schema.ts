/* Tables of others than the store, in schemas next to that of the store: `holdfast_dispatch` next to `holdfast`. */
import { setTimeout as delay } from "node:timers/promises";
import type { Driver } from "@holdfast/core/store-sql/driver";
import type { Dialect } from "@holdfast/core/store-sql/schema";
import { HoldfastError } from "@holdfast/platform/error";
import pg from "pg";
import { RELEASE_LOCKS, type ServerWait, connectDriver, trySchemaLock } from "./driver.ts";
import { postgresError } from "./errors.ts";
import { POSTGRES } from "./open.ts";
import { type Target, parseTarget } from "./target.ts";

export interface OtherSchema {
  readonly driver: Driver;
  readonly dialect: Dialect;
  /** The statement that makes the schema. */
  readonly create: string;
  /** The name of one more schema, for the tables of a library. */
  nameOf(suffix: string): string;
  /** Connections for a library that makes its own statements. The caller ends them. */
  openPool(): pg.Pool;
  /** Does `work` in one process at a time: a library's tables are not made by two at once. STORE_BUSY if another one does not end. */
  inTurn<T>(pool: pg.Pool, work: () => Promise<T>): Promise<T>;
}

/** PostgreSQL shortens longer names, so that two schemas would be one. */
const MAX_NAME = 63;
const POOL_CONNECTIONS = 4;
const ASK_AGAIN_MS = 100;

/** `url` is that of the store. */
export async function connectOtherSchema(params: {
  readonly url: string;
  readonly suffix: string;
  readonly patienceMs: number;
  readonly onWait?: ((wait: ServerWait) => void) | undefined;
}): Promise<OtherSchema> {
  const given = parseTarget(params.url);
  const nameOf = (suffix: string): string => `${given.schema.slice(0, MAX_NAME - suffix.length - 1)}_${suffix}`;
  const schema = nameOf(params.suffix);
  const target: Target = { ...given, schema };
  try {
    const { patienceMs, onWait } = params;
    return {
      driver: await connectDriver({ target, highWater: () => null, ownClock: false, patienceMs, onWait }),
      dialect: POSTGRES,
      create: `CREATE SCHEMA IF NOT EXISTS "${schema}"`,
      nameOf,
      openPool() {
        const onConnect = async (client: pg.ClientBase): Promise<void> => void (await client.query(RELEASE_LOCKS));
        const pool = new pg.Pool({ ...target.client, max: POOL_CONNECTIONS, onConnect });
        // A lost connection fails the statements that wait for it. Without a listener it would end the process as well.
        pool.on("error", () => {});
        return pool;
      },
      async inTurn(pool, work) {
        const client = await pool.connect();
        client.on("error", () => {});
        try {
          const ask = async (): Promise<boolean> =>
            (await client.query<{ locked: boolean }>(trySchemaLock(schema))).rows[0]?.locked === true;
          // A process that was frozen keeps the lock: its system still answers for the connection.
          const until = process.uptime() * 1000 + params.patienceMs;
          while (!(await ask())) {
            if (process.uptime() * 1000 > until) throw busy(target);
            await delay(ASK_AGAIN_MS);
          }
          return await work();
        } finally {
          // The lock ends with the session.
          client.release(true);
        }
      },
    };
  } catch (error) {
    throw postgresError(error, target.location);
  }
}

function busy({ location }: Target): HoldfastError {
  return new HoldfastError({
    code: "STORE_BUSY",
    message: `Another process creates tables in ${location} and does not end`,
    hint: "Find its session in pg_stat_activity, end the process that it belongs to, and try again.",
    retry: "later",
    data: { location },
  });
}

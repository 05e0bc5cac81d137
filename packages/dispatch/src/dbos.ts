/*
 * The dispatch of a team: its tables in PostgreSQL, and DBOS, which brings each turn to the process of its worker and executes it there. DBOS has a
 * schema of its own. A turn is a DBOS workflow without steps on the queue of one process; its id is the turn, so that repeating it changes nothing.
 *
 * DBOS knows limits and delays, but they are not ours: its limits and priorities hold within one queue and partition, its delays end by the clock
 * of any worker, and every worker has the same number of slots. Who executes what is therefore decided in plan-dispatch.ts.
 */
import type { Dispatch } from "@holdfast/core/dispatch";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { randomId } from "@holdfast/platform/identity";
import { type OtherSchema, connectOtherSchema } from "@holdfast/postgres/other-schema";
import { type Delivery, type DispatchParams, createDispatch } from "./table-dispatch.ts";
import { ensureTables } from "./tables.ts";

type Sdk = (typeof import("@dbos-inc/dbos-sdk"))["DBOS"];

const PATIENCE_MS = 120_000;

type DbosParams = DispatchParams & Pick<Parameters<typeof connectOtherSchema>[0], "url" | "onWait">;

/** `url` is that of the store. Only `join` needs DBOS. The tables can be dropped while no process uses them: submit the unfinished runs again. */
export async function openDbosDispatch(params: DbosParams): Promise<Dispatch> {
  const { url, onWait } = params;
  const schema = await connectOtherSchema({ url, onWait, suffix: "dispatch", patienceMs: PATIENCE_MS });
  const { driver } = schema;
  try {
    await requireRights(schema, ["SELECT", "INSERT", "UPDATE", "DELETE"]);
    await ensureTables(driver, schema.dialect, [schema.create]);
    return createDispatch(driver, createDbosDelivery(schema, params.timings?.lookMs ?? 1000), params);
  } catch (error) {
    await driver.close();
    throw driver.toError(error);
  }
}

/** For lists: makes nothing, and a role that may only read is enough. null: nothing was ever submitted there. */
export async function findDbosDispatch(params: DbosParams): Promise<Dispatch | null> {
  const { url, onWait } = params;
  const schema = await connectOtherSchema({ url, onWait, suffix: "dispatch", patienceMs: PATIENCE_MS });
  const { driver } = schema;
  try {
    const isThere = await requireRights(schema, ["SELECT"]);
    if (isThere) return createDispatch(driver, createDbosDelivery(schema, params.timings?.lookMs ?? 1000), params);
    await driver.close();
    return null;
  } catch (error) {
    await driver.close();
    throw driver.toError(error);
  }
}

/** Whether the tables are there. Throws before anything is written if they are, and the role lacks one of the rights. */
async function requireRights({ driver, nameOf }: OtherSchema, rights: readonly string[]): Promise<boolean> {
  const name = nameOf("dispatch");
  const may = rights.map((right) => `has_table_privilege(c.oid, '${right}')`).join(" AND ");
  const [row] = await driver.read((tx) =>
    tx.all(
      `SELECT (has_schema_privilege(n.oid, 'USAGE') AND ${may})::int AS may FROM pg_namespace n
        JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'entries' WHERE n.nspname = ?`,
      [name],
    ),
  );
  if (row === undefined || row["may"] === 1) return row !== undefined;
  throw new HoldfastError({
    code: "STORE_READ_ONLY",
    message: `The role lacks rights on the schema ${name} of ${driver.location}: ${rights.join(", ")}`,
    hint: "Nothing was written. Grant the role what docs/postgres.md lists for the three schemas.",
    data: { schema: name },
  });
}

async function loadSdk(): Promise<Sdk> {
  try {
    return (await import("@dbos-inc/dbos-sdk")).DBOS;
  } catch (cause) {
    if (!(cause instanceof Error && "code" in cause && cause.code === "ERR_MODULE_NOT_FOUND")) throw cause;
    throw new HoldfastError({
      code: "UNSUPPORTED",
      message: "A worker for a store in PostgreSQL needs DBOS, which is not installed",
      hint: "Install it next to holdfast: `npm install --global @dbos-inc/dbos-sdk@5.3.0`, without --global if holdfast is in the project.",
      cause,
    });
  }
}

/** DBOS exists once in a process. */
let receiver: ((turn: string) => Promise<void>) | null = null;
let workflow: ((turn: string) => Promise<void>) | undefined;

/** The same for all versions of Holdfast: DBOS hides workflows of another version, and labels decide here which worker is compatible. */
const VERSION = "1";
const PREFIX = "holdfast-";
const PAGE = 1000;
/** What a workflow that has returned needs to record its end. */
const END_MS = 10_000;

const silent = (): void => {};

/** DBOS wraps what the driver throws and keeps it as `error`. Only the original says which error of the server it is. */
function originOf(error: unknown): unknown {
  return error instanceof Error && "error" in error && error.error instanceof Error ? originOf(error.error) : error;
}

function createDbosDelivery(schema: OtherSchema, pollMs: number): Delivery {
  const address = `${PREFIX}${randomId()}`;
  let running: { readonly sdk: Sdk; readonly pool: ReturnType<OtherSchema["openPool"]> } | undefined;
  let abandoned: ReadonlySet<string> = new Set();

  function dbos(): Sdk {
    if (running !== undefined) return running.sdk;
    throw new Error("DBOS was not started");
  }

  const register = (sdk: Sdk): Promise<unknown> =>
    sdk.registerQueue(address, { minPollingIntervalMs: pollMs, onConflict: "always_update" });

  async function launch(sdk: Sdk): Promise<void> {
    const pool = schema.openPool();
    try {
      sdk.setConfig({
        name: "holdfast",
        systemDatabaseUrl: schema.driver.location,
        systemDatabasePool: pool,
        systemDatabaseSchemaName: schema.nameOf("dbos"),
        useListenNotify: false,
        applicationVersion: VERSION,
        executorID: address,
        listenQueues: [address],
        logger: { info: silent, debug: silent, warn: silent, error: silent },
      });
      workflow ??= sdk.registerWorkflow<string>(async (turn) => receiver?.(turn), { name: "turn" });
      await schema.inTurn(pool, () => sdk.launch());
      await register(sdk);
      running = { sdk, pool };
    } catch (error) {
      await sdk.shutdown().catch(silent);
      await pool.end();
      throw schema.driver.toError(originOf(error));
    }
  }

  return {
    async start(execute) {
      if (receiver !== null)
        throw usageError(
          "This process is already a worker of a dispatch in PostgreSQL",
          "Start another process, or close the first dispatch.",
        );
      receiver = execute;
      try {
        await launch(await loadSdk());
      } catch (error) {
        receiver = null;
        throw error;
      }
      return address;
    },
    async deliver({ turn, address: queueName }) {
      if (workflow !== undefined) await dbos().startWorkflow(workflow, { workflowID: turn, queueName })(turn);
    },
    /** A queue is removed when it is found without a worker for the second time: a process registers its queue before it joins. */
    async tidy(readCurrent) {
      const sdk = dbos();
      await register(sdk);
      const workflows: string[] = [];
      for (let isFull = true; isFull;) {
        const page = { limit: PAGE, offset: workflows.length, loadInput: false, loadOutput: false };
        const found = await sdk.listWorkflows(page);
        workflows.push(...found.map(({ workflowID }) => workflowID));
        isFull = found.length === PAGE;
      }
      const queues = (await sdk.listQueues()).map(({ name }) => name).filter((name) => name.startsWith(PREFIX));
      // Read after the workflows: a turn is in the tables before it is passed on.
      const { turns, addresses } = await readCurrent();
      const left = workflows.filter((id) => !turns.has(id));
      if (left.length > 0) await sdk.deleteWorkflows(left);
      const found = queues.filter((name) => name !== address && !addresses.has(name));
      for (const name of found) if (abandoned.has(name)) await sdk.deleteQueue(name);
      abandoned = new Set(found);
    },
    async stop() {
      receiver = null;
      if (running === undefined) return;
      const { sdk, pool } = running;
      await sdk.deleteQueue(address).catch(silent);
      await sdk.shutdown({ workflowCompletionTimeoutMS: END_MS });
      await pool.end();
      running = undefined;
    },
  };
}

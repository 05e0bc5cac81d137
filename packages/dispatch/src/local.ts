/* The dispatch of one machine: a SQLite database in a directory of its own, for any number of processes. */
import type { Dispatch } from "@holdfast/core/dispatch";
import { SQLITE } from "@holdfast/core/store-sql/schema";
import { connect, createWritingDriver, patiently } from "@holdfast/core/store-sql/sqlite-driver";
import { sqliteError } from "@holdfast/core/store-sql/sqlite-errors";
import { checkKinds, createDatabaseFile, layoutOf } from "@holdfast/core/store-sql/sqlite-files";
import { makeDurableDirectory } from "@holdfast/platform/files";
import { randomId } from "@holdfast/platform/identity";
import { type Delivery, type DispatchParams, createDispatch } from "./table-dispatch.ts";
import { ensureTables } from "./tables.ts";

/** How long a call waits for the write lock of another process. */
const BUSY_MS = 60_000;

/** `directory` is made if it is absent. It can be deleted while no process uses it: submit the unfinished runs again. */
export async function openLocalDispatch(params: DispatchParams & { readonly directory: string }): Promise<Dispatch> {
  const layout = layoutOf(params.directory);
  try {
    makeDurableDirectory(layout.directory);
    checkKinds(layout);
    createDatabaseFile(layout);
    const writer = await patiently(() => connect(layout.database, "write"), BUSY_MS);
    const driver = createWritingDriver({ layout, writer, busyMs: BUSY_MS });
    try {
      await ensureTables(driver, SQLITE);
      return createDispatch(driver, createLocalDelivery(), params);
    } catch (error) {
      await driver.close();
      throw error;
    }
  } catch (error) {
    throw sqliteError(error, layout.directory);
  }
}

/** A turn of another process is not brought there: that process finds it in the database. */
function createLocalDelivery(): Delivery {
  const address = randomId();
  let run: (turn: string) => Promise<void> = async () => {};
  return {
    async start(execute) {
      run = execute;
      return address;
    },
    async deliver(turn) {
      if (turn.address === address) void run(turn.turn);
    },
    tidy: async () => {},
    stop: async () => {},
  };
}

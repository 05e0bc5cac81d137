import type { DatabaseSync } from "node:sqlite";

/** Begins and ends transactions on one connection, and has what is remembered looked at again when others wrote. */
export interface Transactions {
  begin(): void;
  /** begin, work, commit, without looking what others wrote; rollback is left to the caller. */
  writeTrusting(work: () => void): void;
  commit(): void;
  /** Also after a failure that ended the transaction by itself. */
  rollback(): void;
  /** begin, work, commit; rollback when the work throws. */
  write<T>(work: () => T): T;
  /** Everything read inside belongs to one moment. */
  read<T>(work: () => T): T;
}

export function createTransactions(params: {
  readonly db: DatabaseSync;
  /** Runs first in every transaction. */
  readonly refresh: () => void;
  /** Nothing learned inside the transaction is true any more. */
  readonly onRollback: () => void;
}): Transactions {
  const { db, refresh, onRollback } = params;
  const beginImmediate = db.prepare("BEGIN IMMEDIATE");
  const beginDeferred = db.prepare("BEGIN");
  const commitNow = db.prepare("COMMIT");
  const rollbackNow = db.prepare("ROLLBACK");

  function begin(): void {
    beginImmediate.run();
    try {
      refresh();
    } catch (error) {
      rollback();
      throw error;
    }
  }

  function rollback(): void {
    onRollback();
    if (db.isTransaction) rollbackNow.run();
  }

  /** Nothing was changed. On a damaged page even the end of a read fails, and what the read said before is worth more. */
  function endRead(): void {
    try {
      rollbackNow.run();
    } catch {
      if (db.isTransaction) throw new Error("a read could not be ended");
    }
  }

  return {
    begin,
    writeTrusting(work) {
      beginImmediate.run();
      work();
      commitNow.run();
    },
    commit: () => void commitNow.run(),
    rollback,
    write(work) {
      begin();
      try {
        const result = work();
        commitNow.run();
        return result;
      } catch (error) {
        rollback();
        throw error;
      }
    },
    read(work) {
      // A read inside a write sees what the write has done.
      if (db.isTransaction) return work();
      beginDeferred.run();
      try {
        refresh();
        return work();
      } finally {
        endRead();
      }
    },
  };
}

import { join } from "node:path";

/** Where everything of one store lies. */
export interface Layout {
  readonly directory: string;
  /** Says that a store was made here, so that a missing database is seen as missing. */
  readonly marker: string;
  readonly database: string;
  readonly wal: string;
  readonly sharedMemory: string;
  /** How far each run had come, kept apart from the database so that a cut database is seen as cut. */
  readonly witness: string;
  readonly blobs: string;
  /** Space for the last entries on a full disk. */
  readonly reserve: string;
  /** Copies of damaged files, each from before the store was opened for writing. */
  readonly quarantine: string;
}

export function layoutOf(directory: string): Layout {
  const database = join(directory, "store.db");
  return {
    directory,
    marker: join(directory, "store.json"),
    database,
    wal: `${database}-wal`,
    sharedMemory: `${database}-shm`,
    witness: join(directory, "heads"),
    blobs: join(directory, "blobs"),
    reserve: join(directory, "reserve"),
    quarantine: join(directory, "quarantine"),
  };
}

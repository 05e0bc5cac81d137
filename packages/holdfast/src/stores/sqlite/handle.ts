import type { DatabaseSync } from "node:sqlite";
import type { Append, Moment } from "./append.ts";
import type { BlobFiles } from "./pack/blob-files.ts";
import type { Bundler } from "./pack/bundler.ts";
import type { GroupCommit } from "./group-commit.ts";
import type { Heads } from "./witness/heads.ts";
import type { Layout } from "./layout.ts";
import type { Log } from "./log.ts";
import type { PackTable } from "./pack/pack-table.ts";
import type { Packs } from "./pack/packs.ts";
import type { Places } from "./pack/places.ts";
import type { Runs } from "./runs.ts";
import type { Transactions } from "./transactions.ts";
import type { Witness } from "./witness/witness.ts";
import type { Hasher } from "@holdfast/core/json";
import type { ProcessIdentity } from "@holdfast/platform/identity";

/** One open connection and everything it remembers. */
export interface Handle {
  readonly db: DatabaseSync;
  readonly layout: Layout;
  readonly storeId: string;
  /** Random; makes this handle an owner of its own. */
  readonly token: string;
  readonly identity: ProcessIdentity;
  readonly hasher: Hasher;
  readonly now: () => Moment;
  readonly log: Log;
  readonly places: Places;
  readonly runs: Runs;
  readonly heads: Heads;
  readonly append: Append;
  readonly packs: Packs;
  readonly packTable: PackTable;
  readonly blobs: BlobFiles;
  readonly bundler: Bundler;
  /** Cancels what this handle has put off until nobody waits. */
  readonly stop: () => void;
  readonly transactions: Transactions;
  readonly group: GroupCommit;
  readonly witness: Witness;
  /** Called after each commit of this handle. */
  readonly listeners: Set<() => void>;
}

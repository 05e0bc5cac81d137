import type { Clock } from "../ports/clock.ts";
import type { Transport } from "./transport.ts";

/** What a forge with a server is opened with, whichever it is. */
export interface ServerForgeOptions {
  readonly transport: Transport;
  readonly host: string;
  /** Where issues and pull requests live; an owner may be several groups deep. */
  readonly owner: string;
  readonly name: string;
  /** Where branches are pushed to, when that is a fork. */
  readonly head?: { readonly owner: string; readonly name: string };
  readonly clock?: Clock;
  /** Before a read is tried again. */
  readonly pauseMs?: number;
}

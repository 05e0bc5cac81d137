import type { Incoming, Reply } from "../forge-server/exchange.ts";
import type { Repository, World } from "./world.ts";

/** One request about one repository. */
export interface Call {
  readonly world: World;
  readonly repository: Repository;
  readonly incoming: Incoming;
  readonly login: string;
  /** Of the route's path. */
  readonly match: RegExpExecArray;
}

export interface Route {
  readonly method: string;
  /** What follows `repos/owner/name/`. */
  readonly path: RegExp;
  run(call: Call): Promise<Reply>;
}

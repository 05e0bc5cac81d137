import type { Route as AnyRoute, RoutedCall } from "../forge-server/route.ts";
import type { Repository, World } from "./world.ts";

interface RepositoryContext {
  readonly world: World;
  readonly repository: Repository;
  readonly login: string;
}

/** One request about one repository. */
export type Call = RoutedCall<RepositoryContext>;
/** Its path is what follows `repos/owner/name/`. */
export type Route = AnyRoute<RepositoryContext>;

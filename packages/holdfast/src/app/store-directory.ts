import { join, resolve } from "node:path";
import { HoldfastError } from "../core/error.ts";
import type { Workspaces } from "../ports/workspace.ts";

export interface StorePlace {
  /** A directory, relative to `cwd`. */
  readonly store?: string;
  readonly cwd?: string;
}

/** As named, else HOLDFAST_STORE, else in the git directory of the repository. NOT_A_REPOSITORY when none of them is there. */
export function storeDirectory(place: StorePlace, repository: Pick<Workspaces, "commonDir"> | null): string {
  const named = namedDirectory(place);
  if (named !== undefined) return named;
  if (repository !== null) return join(repository.commonDir, "holdfast");
  throw new HoldfastError({
    code: "NOT_A_REPOSITORY",
    message: `${resolve(place.cwd ?? ".")} is not inside a git repository, so there is no place for a store`,
    hint: "Run this inside a repository, or name a directory with --store or HOLDFAST_STORE.",
  });
}

/** The same for those who need nothing else of the repository: git is looked for only where no directory is named. */
export async function findStoreDirectory(place: StorePlace): Promise<string> {
  const named = namedDirectory(place);
  if (named !== undefined) return named;
  const { openGitWorkspaces } = await import("../workspaces/git-workspaces.ts");
  const repository = await repositoryOrNull(openGitWorkspaces(resolve(place.cwd ?? ".")));
  try {
    return storeDirectory(place, repository);
  } finally {
    await repository?.close();
  }
}

export async function repositoryOrNull(opening: Promise<Workspaces>): Promise<Workspaces | null> {
  try {
    return await opening;
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "NOT_A_REPOSITORY") return null;
    throw error;
  }
}

function namedDirectory({ store = process.env["HOLDFAST_STORE"], cwd = "." }: StorePlace): string | undefined {
  return store === undefined || store === "" ? undefined : resolve(cwd, store);
}

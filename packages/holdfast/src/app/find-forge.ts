import { HoldfastError } from "../core/error.ts";
import { anyFolder } from "../engine/any-folder.ts";
import { localPathOf } from "../forges/local/forge-place.ts";
import type { Branches } from "../ports/branch.ts";
import type { Clock } from "../ports/clock.ts";
import type { Forge } from "../ports/forge.ts";
import type { Workspaces } from "../ports/workspace.ts";

export interface ForgeChoice {
  /** "auto": told from the remote. */
  readonly kind: "auto" | "local" | "none";
  /** Repository of a local forge; null: the remote. */
  readonly path: string | null;
}

/** null: there is none, by choice or because no remote tells of one. */
export async function findForge(params: {
  readonly choice: ForgeChoice;
  readonly workspaces: Workspaces | null;
  readonly branches: Branches;
  readonly clock: Clock;
}): Promise<Forge | null> {
  const { choice, clock } = params;
  if (choice.kind === "none") return null;
  const repository = choice.path ?? (await remotePath(params));
  if (repository !== null) {
    // Not before one is needed: it reads YAML, and the parser would cost every start.
    const { openLocalForge } = await import("../forges/local/local-forge.ts");
    return openLocalForge({ repository, clock });
  }
  if (choice.kind === "auto") return null;
  throw new HoldfastError({
    code: "USAGE",
    message: "The forge is said to be local, but the remote is no directory of this machine",
    hint: "Name its repository with forge.path in holdfast.config.yaml.",
  });
}

async function remotePath(params: {
  readonly workspaces: Workspaces | null;
  readonly branches: Branches;
}): Promise<string | null> {
  const folder = params.workspaces === null ? null : await anyFolder(params.workspaces);
  if (folder === null) return null;
  const remote = await (await params.branches.asking(folder)).remote();
  return remote === null ? null : localPathOf(remote.url, folder);
}

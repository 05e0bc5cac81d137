import { join } from "node:path";
import { asideKey } from "../../core/position/aside.ts";
import type { AsideName } from "../../ports/aside.ts";
import { defaultPath } from "../worktree/create-worktree.ts";
import type { Repository } from "../repository.ts";

/** No run's id has a dot in it, so no run's own worktree can ever lie there. */
export function asideRoot(repository: Repository, { run, name, beside }: AsideName): string {
  return join(`${beside ?? defaultPath(repository, run)}.aside`, asideKey(name));
}

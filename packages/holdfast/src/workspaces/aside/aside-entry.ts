import { existsSync } from "node:fs";
import { join } from "node:path";
import { HoldfastError } from "../../core/error.ts";
import { RUN_ID } from "../../core/run/run.ts";
import type { AsideInfo } from "../../ports/aside.ts";
import type { Repository } from "../repository.ts";
import { asideOwner, readEntries } from "../worktree/worktree-entry.ts";

/** Read by hand, as all entries are: one that git was killed in hides none of the others. */
export async function listAsides(repository: Repository, run?: string): Promise<readonly AsideInfo[]> {
  const asides = (await readEntries(repository)).flatMap(({ run: owner, folder }) => {
    const aside = asideOwner(owner);
    if (aside === null || folder === null) return [];
    return [{ ...aside, path: folder, exists: existsSync(join(folder, ".git")) }];
  });
  return run === undefined ? asides : asides.filter((aside) => aside.run === run);
}

/** What an aside's entry says in place of a run. */
export function ownerOf({ run, key }: { readonly run: string; readonly key: string }): string {
  if (RUN_ID.test(run) && KEY.test(key)) return `${run}/${key}`;
  throw new HoldfastError({ code: "USAGE", message: `${run}/${key} does not name an aside of a run` });
}

const KEY = /^[a-z0-9-]+$/;

import type { Asides } from "../../ports/aside.ts";
import { guardMethods } from "../git/failure-border.ts";
import type { Repository } from "../repository.ts";
import { listAsides } from "./aside-entry.ts";
import { listAsidePins, pinAside } from "./aside-pin.ts";
import { asideRoot } from "./aside-root.ts";
import { commitBase } from "./commit-base.ts";
import { mergeAside } from "./merge-aside.ts";
import { findAside, placeAside } from "./place-aside.ts";
import { removeAside } from "./remove-aside.ts";
import { treeOfCommit } from "./tree-of-commit.ts";

export function createGitAsides(repository: Repository): Asides {
  const { rootOf, ...methods }: Asides = {
    base: (params) => commitBase(repository, params),
    pin: (params) => pinAside(repository, params),
    rootOf: (params) => asideRoot(repository, params),
    place: (params) => placeAside(repository, params),
    find: (params) => findAside(repository, params),
    list: (run) => listAsides(repository, run),
    remove: (params) => removeAside(repository, params),
    refs: () => listAsidePins(repository),
    merge: (params) => mergeAside(repository, params),
    treeOf: (commit) => treeOfCommit(repository, commit),
  };
  return { ...guardMethods(methods, repository.commonDir), rootOf };
}

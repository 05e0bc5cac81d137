import { HoldfastError } from "../../core/error.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Forge } from "../../ports/forge.ts";
import { systemClock } from "../../system/clock.ts";
import { numberOf } from "../subject.ts";
import { readBranch } from "./bare-git.ts";
import { readChecks } from "./checks.ts";
import { addComment, findComment } from "./comments.ts";
import { findForgePlace, forgeDirectory, type ForgePlace } from "./forge-place.ts";
import { createIssue, findIssue, readIssue, setLabels } from "./issues.ts";
import { mergePull } from "./merge-pull.ts";
import { createPull, findPull, getPull, setPullLabels, updatePull } from "./pulls.ts";
import { readReviews } from "./reviews.ts";
import { tellForgeFailures } from "./forge-failure.ts";

export interface LocalForgeOptions {
  /** A bare repository, or any other on this machine. */
  readonly repository: string;
  /** Where issues and pull requests lie; default `holdfast-forge` inside the repository. */
  readonly directory?: string;
  readonly clock?: Clock;
  /** How long `checks` waits for a CI command before it answers "pending". */
  readonly ciWaitMs?: number;
}

/**
 * Issues, pull requests, checks and merges on a plain repository and files beside it: no server, no account. A repository that is not there (a
 * drive that is not mounted) is an answer that fails, as with any forge that does not answer, and may come back.
 */
export function openLocalForge(options: LocalForgeOptions): Forge {
  const { repository, directory, clock = systemClock, ciWaitMs = 5000 } = options;
  const at = async <T>(work: (place: ForgePlace) => T | Promise<T>): Promise<T> => {
    const place = findForgePlace({ repository, directory, clock });
    return await tellForgeFailures(place, () => work(place));
  };
  const forge: Forge = {
    name: "local",
    location: forgeDirectory({ repository, directory }),
    // Whatever changes something is done in this process, and ends with it.
    lateMs: 0,
    marked: () => forge,
    getIssue: (number) => at((place) => readIssue(place, number)),
    createIssue: (issue) => at((place) => createIssue(place, issue)),
    findIssue: (key) => at((place) => findIssue(place, key)),
    setLabels: (on, labels) =>
      at((place) =>
        typeof on === "number" ? setLabels(place, on, labels) : setPullLabels(place, on.pullRequest, labels),
      ),
    findComment: (on, key) => at((place) => findComment(place, numberOf(on), key)),
    comment: (on, comment) => at((place) => addComment(place, numberOf(on), comment)),
    defaultBranch: () => at((place) => findDefaultBranch(place)),
    findPullRequest: (head) => at((place) => findPull(place, head)),
    getPullRequest: (number) => at((place) => getPull(place, number)),
    createPullRequest: (request) => at((place) => createPull(place, request)),
    updatePullRequest: (number, change) => at((place) => updatePull(place, number, change)),
    mergePullRequest: (number, params) => at((place) => mergePull(place, number, params)),
    checks: (commit) => at((place) => readChecks(place, commit, ciWaitMs)),
    reviews: (number) => at((place) => readReviews(place, number)),
  };
  return forge;
}

async function findDefaultBranch(place: ForgePlace): Promise<string> {
  const named = (await place.git.line(["symbolic-ref", "HEAD"])).replace(/^refs\/heads\//, "");
  if ((await readBranch(place.git, named)) !== null) return named;
  // A new bare repository names a branch before anything was pushed, and the first push may have another name.
  const usual: string[] = [];
  for (const name of ["main", "master"]) if ((await readBranch(place.git, name)) !== null) usual.push(name);
  const [only] = usual;
  if (only !== undefined && usual.length === 1) return only;
  throw new HoldfastError({
    code: "FORGE_FAILED",
    message: `HEAD of ${place.gitDir} names ${named}, which is not there`,
    hint: `Run \`git -C ${place.gitDir} symbolic-ref HEAD refs/heads/<branch>\`.`,
    retry: "ask",
  });
}

import { HoldfastError } from "../../core/error.ts";
import type { PullRequest } from "../../ports/forge.ts";
import { writeOnce } from "../write-once.ts";
import { hiddenWrite } from "./issues.ts";
import { getPull, requirePull } from "./pulls.ts";
import { locationOf, readRepository, repositoryPath, type GithubPlace } from "./repository.ts";

/** GitHub merges only while the head is still the commit that was named. Merged already is merged, whoever did it. */
export async function mergePull(
  place: GithubPlace,
  number: number,
  params: { readonly head: string },
): Promise<PullRequest> {
  const pull = await requirePull(place, number);
  if (pull.state === "merged") return pull;
  if (pull.state === "closed") throw cannot(place, number, "closed", "it is closed");
  if (pull.headCommit !== params.head)
    throw cannot(place, number, "head_moved", `${pull.head} is at ${pull.headCommit}, not at ${params.head}`);
  if (pull.draft) throw cannot(place, number, "draft", "it is a draft");
  const path = `${repositoryPath(place)}/pulls/${number}/merge`;
  const method = await methodOf(place);
  return await writeOnce(place.api, {
    request: { method: "PUT", path, body: { sha: params.head, merge_method: method } },
    done: () => requirePull(place, number),
    async find() {
      const after = await getPull(place, number);
      return after?.state === "merged" ? after : null;
    },
    hidden: () => hiddenWrite(place, `merge pull request ${number}`),
    async refused({ status, message }) {
      const after = await requirePull(place, number);
      // Somebody else was quicker.
      return after.state === "merged"
        ? after
        : cannot(place, number, status === 409 ? "head_moved" : whyOf(after), message);
    },
  });
}

/** A merge commit where the repository takes them: only that keeps the commits that were reviewed. */
async function methodOf(place: GithubPlace): Promise<"merge" | "squash" | "rebase"> {
  const repository = await readRepository(place);
  if (repository.allow_merge_commit !== false) return "merge";
  return repository.allow_squash_merge === false ? "rebase" : "squash";
}

function whyOf({ mergeability }: PullRequest): string {
  return mergeability === "mergeable" || mergeability === "unknown" ? "refused" : mergeability;
}

function cannot(place: GithubPlace, number: number, why: string, message: string): HoldfastError {
  return new HoldfastError({
    code: "FORGE_REFUSED",
    message: `pull request ${number} in ${locationOf(place)} cannot be merged: ${message}`,
    hint: "Look at the pull request again; nothing was merged.",
    data: { why, number },
  });
}

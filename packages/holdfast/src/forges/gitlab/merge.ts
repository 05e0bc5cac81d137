import { HoldfastError } from "../../core/error.ts";
import type { PullRequest } from "../../ports/forge.ts";
import { writeOnce } from "../write-once.ts";
import { getRequest, requireRequest } from "./merge-requests.ts";
import { hiddenWrite, locationOf, projectPath, type GitlabPlace } from "./project.ts";

/** GitLab merges only while the head is still the commit that was named. Merged already is merged, whoever did it. */
export async function mergeRequest(
  place: GitlabPlace,
  number: number,
  params: { readonly head: string },
): Promise<PullRequest> {
  const request = await requireRequest(place, number);
  if (request.state === "merged") return request;
  if (request.state === "closed") throw cannot(place, number, "closed", "it is closed");
  if (request.headCommit !== params.head)
    throw cannot(place, number, "head_moved", `${request.head} is at ${request.headCommit}, not at ${params.head}`);
  if (request.draft) throw cannot(place, number, "draft", "it is a draft");
  const path = `${projectPath(place.project)}/merge_requests/${number}/merge`;
  return await writeOnce(place.api, {
    request: { method: "PUT", path, body: { sha: params.head } },
    done: () => requireRequest(place, number),
    async find() {
      const after = await getRequest(place, number);
      return after?.state === "merged" ? after : null;
    },
    hidden: () => hiddenWrite(place, `merge ${number}`),
    async refused({ status, message }) {
      const after = await requireRequest(place, number);
      // Somebody else was quicker.
      return after.state === "merged"
        ? after
        : cannot(place, number, status === 409 ? "head_moved" : whyOf(after), message);
    },
  });
}

function whyOf({ mergeability }: PullRequest): string {
  return mergeability === "mergeable" || mergeability === "unknown" ? "refused" : mergeability;
}

function cannot(place: GitlabPlace, number: number, why: string, message: string): HoldfastError {
  return new HoldfastError({
    code: "FORGE_REFUSED",
    message: `merge request ${number} in ${locationOf(place)} cannot be merged: ${message}`,
    hint: "Look at the merge request again; nothing was merged.",
    data: { why, number },
  });
}

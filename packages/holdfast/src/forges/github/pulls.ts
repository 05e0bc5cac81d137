import { HoldfastError } from "../../core/error.ts";
import type { NewPullRequest, PullRequest } from "../../ports/forge.ts";
import { fitBody } from "../fit-body.ts";
import { hasMarker, keepMarkers, withMarker } from "../marker.ts";
import { requireText } from "../require-text.ts";
import { writeOnce } from "../write-once.ts";
import { hiddenWrite } from "./issues.ts";
import { LONGEST_BODY } from "./limits.ts";
import { refusalOf } from "./pull-refusal.ts";
import { absent, locationOf, readRepository, repositoryPath, type GithubPlace } from "./repository.ts";
import { PULL, stateOf, viewPull, type GithubPull } from "./view-pull.ts";

export async function findPull(place: GithubPlace, head: string): Promise<PullRequest | null> {
  const all = await listPulls(place, head);
  const found = all.find((pull) => stateOf(pull) === "open") ?? all[0];
  // Only asked for by itself does it say whether it can be merged.
  return found === undefined ? null : await getPull(place, found.number);
}

export async function getPull(place: GithubPlace, number: number): Promise<PullRequest | null> {
  const found = await place.api.read(pathOf(place, number), PULL);
  return found === null ? await absent(place) : viewPull(found);
}

export async function createPull(place: GithubPlace, request: NewPullRequest): Promise<PullRequest> {
  requireText("title", request.title);
  const { title, base, draft, key } = request;
  const body = fitBody(request.body, LONGEST_BODY, (text) => withMarker(text, key));
  const made = await findMade(place, request);
  if (made !== null) return made;
  const path = `${repositoryPath(place)}/pulls`;
  const head = headOf(place, request.head);
  return await writeOnce(place.api, {
    request: { method: "POST", path, body: { title, body, base, draft, ...head } },
    done: (answer, what) => viewPull(place.api.parse(answer, PULL, what)),
    find: () => findMade(place, request),
    async hidden() {
      await readRepository(place);
      return hiddenWrite(place, "create a pull request");
    },
    async refused(judged) {
      const refusal = refusalOf(judged);
      // Another one with the same key was quicker, or the same one a moment ago.
      const there = refusal.why === "exists" ? await findMade(place, request) : null;
      if (there !== null) return there;
      const open = refusal.why === "exists" ? await findPull(place, request.head) : null;
      return new HoldfastError({
        code: "FORGE_REFUSED",
        message: `no pull request of ${request.head} into ${base} can be made in ${locationOf(place)}: ${judged.message}`,
        hint: refusal.hint,
        data: { why: refusal.why, ...(open === null ? {} : { number: open.number, url: open.url }) },
      });
    },
  });
}

export async function updatePull(
  place: GithubPlace,
  number: number,
  change: { readonly title?: string; readonly body?: string },
): Promise<PullRequest> {
  if (change.title !== undefined) requireText("title", change.title);
  const pull = await requirePull(place, number);
  const title = change.title ?? pull.title;
  const body =
    change.body === undefined ? pull.body : fitBody(change.body, LONGEST_BODY, (text) => keepMarkers(text, pull.body));
  if (title === pull.title && body === pull.body) return pull;
  const path = pathOf(place, number);
  return await writeOnce(place.api, {
    request: { method: "PATCH", path, body: { title, body } },
    done: (answer, what) => viewPull(place.api.parse(answer, PULL, what)),
    async find() {
      const after = await requirePull(place, number);
      return after.title === title && after.body === body ? after : null;
    },
    hidden: () => hiddenWrite(place, `change pull request ${number}`),
    refused: ({ message }) =>
      new HoldfastError({
        code: "FORGE_REFUSED",
        message: `pull request ${number} in ${locationOf(place)} cannot be changed: ${message}`,
        hint: "Look at the title and the body that were asked for.",
        data: { why: "change_refused", number },
      }),
  });
}

export async function requirePull(place: GithubPlace, number: number): Promise<PullRequest> {
  const pull = await getPull(place, number);
  if (pull !== null) return pull;
  throw new HoldfastError({
    code: "FORGE_REFUSED",
    message: `there is no pull request ${number} in ${locationOf(place)}`,
    hint: "Name another number.",
    data: { why: "pull_missing", number },
  });
}

async function findMade(place: GithubPlace, request: NewPullRequest): Promise<PullRequest | null> {
  const all = await listPulls(place, request.head);
  const made = all.find((pull) => hasMarker(pull.body ?? "", request.key));
  return made === undefined ? null : await getPull(place, made.number);
}

/** Newest first. What does not have this very head is left out: a filter that GitHub does not understand finds everything. */
async function listPulls(place: GithubPlace, head: string): Promise<readonly GithubPull[]> {
  const label = `${place.head.owner}:${head}`;
  const path = `${repositoryPath(place)}/pulls?state=all&sort=created&direction=desc&head=${encodeURIComponent(label)}`;
  const all = (await place.api.list(path, PULL)) ?? (await absent(place)) ?? [];
  return all.filter(({ head: { ref, label: its } }) => ref === head && isOwner(its, place.head.owner));
}

function isOwner(label: string | null | undefined, owner: string): boolean {
  return label === null || label === undefined || label.split(":")[0]?.toLowerCase() === owner.toLowerCase();
}

/** Within one repository the branch alone; from a fork its owner, and its name where one owner has both. */
function headOf(place: GithubPlace, branch: string): { readonly head: string; readonly head_repo?: string } {
  const { owner, name } = place.head;
  if (owner.toLowerCase() !== place.owner.toLowerCase()) return { head: `${owner}:${branch}` };
  if (name.toLowerCase() === place.name.toLowerCase()) return { head: branch };
  return { head: `${owner}:${branch}`, head_repo: name };
}

function pathOf(place: GithubPlace, number: number): string {
  return `${repositoryPath(place)}/pulls/${number}`;
}

import { fieldsOf, Refused, textOf, type Reply } from "../forge-server/exchange.ts";
import { pageOf } from "../forge-server/page.ts";
import { closedIssues } from "../../forges/closing-words.ts";
import { pullBody, remarkBodies, reviewBody } from "./bodies.ts";
import { limited } from "./issue-routes.ts";
import { bringIn, followHead, mergeState } from "./merge-state.ts";
import type { Call, Route } from "./route.ts";
import { nextNumber, notFound, unprocessable, type Pull, type Repository, type ReviewRecord } from "./world.ts";

export const pullRoutes: readonly Route[] = [
  { method: "GET", path: /^pulls$/, run: listPulls },
  { method: "POST", path: /^pulls$/, run: createPull },
  { method: "GET", path: /^pulls\/(\d+)$/, run: readPull },
  { method: "PATCH", path: /^pulls\/(\d+)$/, run: updatePull },
  { method: "PUT", path: /^pulls\/(\d+)\/merge$/, run: merge },
  { method: "GET", path: /^pulls\/(\d+)\/reviews$/, run: listReviews },
  { method: "GET", path: /^pulls\/(\d+)\/comments$/, run: listRemarks },
];

async function listPulls({ repository, incoming }: Call): Promise<Reply> {
  const state = incoming.query.get("state") ?? "open";
  const head = incoming.query.get("head");
  await Promise.all(repository.pulls.map((pull) => followHead(repository, pull)));
  const found = repository.pulls.filter(
    (pull) =>
      (state === "all" || pull.state === state) &&
      // A head that is not owner:branch is not looked at, and everything is found.
      (head?.includes(":") !== true || head === `${pull.head.repository.owner}:${pull.head.branch}`),
  );
  found.sort((a, b) => b.number - a.number);
  return pageOf(
    incoming,
    found.map((pull) => pullBody(repository, pull)),
  );
}

async function createPull({ world, repository, incoming, login }: Call): Promise<Reply> {
  const fields = fieldsOf(incoming.body);
  const [title, base] = [textOf(fields["title"], ""), textOf(fields["base"], "")];
  const { from, branch } = headOf(world.repositories, repository, fields);
  const body = limited("PullRequest", textOf(fields["body"], ""));
  const tip = from === undefined ? null : await from.bare.tip(branch);
  if (from === undefined || tip === null)
    throw unprocessable([{ resource: "PullRequest", field: "head", code: "invalid" }]);
  const baseTip = await repository.bare.tip(base);
  if (baseTip === null) throw unprocessable([{ resource: "PullRequest", field: "base", code: "invalid" }]);
  const label = `${from.owner}:${branch}`;
  const there = repository.pulls.find(
    (pull) =>
      pull.state === "open" && pull.base === base && pull.head.repository === from && pull.head.branch === branch,
  );
  if (there !== undefined) throw custom(`A pull request already exists for ${label}.`);
  if (fields["draft"] === true && !repository.rules.drafts)
    throw new Refused({ status: 422, body: { message: "Draft pull requests are not supported in this repository." } });
  const at = world.now();
  const pull: Pull = {
    number: nextNumber(repository),
    author: login,
    title,
    body,
    state: "open",
    labels: [],
    createdAt: at,
    updatedAt: at,
    draft: fields["draft"] === true,
    head: { repository: from, branch },
    base,
    headCommit: tip,
    mergeCommit: null,
    reckoned: null,
  };
  await bringIn(repository, pull);
  if (await repository.bare.isAncestor(tip, baseTip)) throw custom(`No commits between ${base} and ${label}`);
  repository.pulls.push(pull);
  return { status: 201, body: pullBody(repository, pull, { mergeable: null, state: "unknown" }) };
}

async function readPull(call: Call): Promise<Reply> {
  const pull = requirePull(call);
  await followHead(call.repository, pull);
  return { status: 200, body: pullBody(call.repository, pull, await mergeState(call.repository, pull)) };
}

async function updatePull(call: Call): Promise<Reply> {
  const pull = requirePull(call);
  const fields = fieldsOf(call.incoming.body);
  pull.title = textOf(fields["title"], pull.title);
  pull.body = limited("PullRequest", textOf(fields["body"], pull.body ?? ""));
  if (fields["state"] === "closed" || fields["state"] === "open") pull.state = fields["state"];
  pull.updatedAt = call.world.now();
  return await readPull(call);
}

async function merge(call: Call): Promise<Reply> {
  const { repository, world } = call;
  const pull = requirePull(call);
  await followHead(repository, pull);
  const fields = fieldsOf(call.incoming.body);
  const method = textOf(fields["merge_method"], "merge");
  if (pull.state !== "open") throw notAllowed("Pull Request is not mergeable");
  if (textOf(fields["sha"], pull.headCommit) !== pull.headCommit)
    throw new Refused({
      status: 409,
      body: { message: "Head branch was modified. Review and try the merge again." },
    });
  if (!repository.rules.methods.some((one) => one === method))
    throw notAllowed(
      `${method === "merge" ? "Merge commits" : `${method} merges`} are not allowed on this repository.`,
    );
  if (pull.draft) throw notAllowed("Pull Request is still a draft");
  if (repository.rules.approvals)
    throw notAllowed("At least 1 approving review is required by reviewers with write access.");
  const base = await repository.bare.tip(pull.base);
  const tree = base === null ? null : await repository.bare.mergedTree(base, pull.headCommit);
  if (base === null || tree === null) throw notAllowed("Pull Request is not mergeable");
  const parents = method === "merge" ? [base, pull.headCommit] : [base];
  const commit = await repository.bare.commitTree(tree, parents, `${pull.title} (#${pull.number})`);
  if (!(await repository.bare.move(pull.base, commit, base)))
    throw notAllowed("Base branch was modified. Review and try the merge again.");
  pull.state = "closed";
  pull.mergeCommit = commit;
  pull.updatedAt = world.now();
  for (const number of closedIssues(pull.body ?? "")) {
    const issue = repository.issues.find((one) => one.number === number);
    if (issue !== undefined) issue.state = "closed";
  }
  return { status: 200, body: { sha: commit, merged: true, message: "Pull Request successfully merged" } };
}

async function listReviews(call: Call): Promise<Reply> {
  return pageOf(call.incoming, reviewsOf(call).map(reviewBody));
}

async function listRemarks(call: Call): Promise<Reply> {
  return pageOf(call.incoming, reviewsOf(call).flatMap(remarkBodies));
}

function reviewsOf(call: Call): readonly ReviewRecord[] {
  const { number } = requirePull(call);
  return call.repository.reviews.filter(({ on }) => on === number);
}

function headOf(
  repositories: ReadonlyMap<string, Repository>,
  base: Repository,
  fields: Readonly<Record<string, unknown>>,
): { readonly from: Repository | undefined; readonly branch: string } {
  const [owner, branch] = textOf(fields["head"], "").split(":");
  if (branch === undefined) return { from: base, branch: owner ?? "" };
  const name = textOf(fields["head_repo"], "");
  const from = [...repositories.values()].find(
    (one) => one.owner === owner && (name === "" ? one === base || one.parent === base : one.name === name),
  );
  return { from, branch };
}

function requirePull({ repository, match }: Call): Pull {
  const pull = repository.pulls.find(({ number }) => number === Number(match[1]));
  if (pull === undefined) throw notFound();
  return pull;
}

function custom(message: string): Refused {
  return unprocessable([{ resource: "PullRequest", code: "custom", message }]);
}

function notAllowed(message: string): Refused {
  return new Refused({ status: 405, body: { message } });
}

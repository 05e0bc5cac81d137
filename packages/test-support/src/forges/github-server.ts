// GitHub on loopback: its REST API as far as Holdfast uses it, over real bare repositories.

import { closedIssues } from "@holdfast/forges/body-text";
import {
  type ForgeServer,
  type Incoming,
  Refused,
  type Reply,
  type Route as AnyRoute,
  type RoutedCall,
  fieldsOf,
  follow,
  pageOf,
  startForgeServer,
  textOf,
  textsOf,
} from "./forge-server.ts";
import { answerGraph } from "./github-graphql.ts";
import {
  GithubState,
  type Issue,
  type Pull,
  type Repository,
  type ReviewRecord,
  bringIn,
  checkRunBody,
  commentBody,
  followHead,
  issueBody,
  mergeState,
  nextNumber,
  notFound,
  pullBody,
  remarkBodies,
  repositoryBody,
  reviewBody,
  statusBody,
  unprocessable,
} from "./github-state.ts";

const checkRoutes: readonly Route[] = [
  { method: "GET", path: /^commits\/([0-9a-f]+)\/check-runs$/, run: listCheckRuns },
  { method: "GET", path: /^commits\/([0-9a-f]+)\/status$/, run: combinedStatus },
  { method: "GET", path: /^actions\/jobs\/(\d+)\/logs$/, run: readLog },
];

async function listCheckRuns(call: Call): Promise<Reply> {
  const commit = await requireCommit(call);
  const runs = call.repository.checkRuns.filter((run) => run.commit === commit);
  const page = pageOf(
    call.incoming,
    runs.map((run) => checkRunBody(call.repository, run)),
  );
  return { ...page, body: { total_count: runs.length, check_runs: page.items } };
}

async function combinedStatus(call: Call): Promise<Reply> {
  const commit = await requireCommit(call);
  const statuses = call.repository.statuses.filter((status) => status.commit === commit);
  const newest = new Map(statuses.map((status) => [status.context, status]));
  const page = pageOf(call.incoming, [...newest.values()].map(statusBody));
  // Without any status GitHub reports "pending", which has no meaning.
  return { ...page, body: { state: "pending", total_count: newest.size, statuses: page.items } };
}

async function readLog({ repository, match }: Call): Promise<Reply> {
  const log = repository.logs.get(Number(match[1]));
  if (log === undefined) throw notFound();
  return { status: 200, body: log };
}

async function requireCommit({ repository, match }: Call): Promise<string> {
  const commit = match[1] ?? "";
  if (await repository.bare.hasCommit(commit)) return commit;
  throw new Refused({ status: 422, body: { message: `No commit found for SHA: ${commit}` } });
}

const issueRoutes: readonly Route[] = [
  { method: "GET", path: /^issues$/, run: listIssues },
  { method: "POST", path: /^issues$/, run: createIssue },
  { method: "GET", path: /^issues\/(\d+)$/, run: readIssue },
  { method: "PUT", path: /^issues\/(\d+)\/labels$/, run: setLabels },
  { method: "GET", path: /^issues\/(\d+)\/comments$/, run: listComments },
  { method: "POST", path: /^issues\/(\d+)\/comments$/, run: addComment },
  { method: "DELETE", path: /^issues\/comments\/(\d+)$/, run: deleteComment },
];

async function listIssues({ repository, incoming }: Call): Promise<Reply> {
  const state = incoming.query.get("state") ?? "open";
  const creator = incoming.query.get("creator");
  const all = [
    ...repository.issues.map((issue) => ({ issue, isPull: false })),
    ...repository.pulls.map((issue) => ({ issue, isPull: true })),
  ].filter(({ issue }) => (state === "all" || issue.state === state) && (creator ?? issue.author) === issue.author);
  all.sort((a, b) => b.issue.number - a.issue.number);
  return pageOf(
    incoming,
    all.map(({ issue, isPull }) => issueBody(repository, issue, isPull)),
  );
}

async function createIssue({ world, repository, incoming, login }: Call): Promise<Reply> {
  const fields = fieldsOf(incoming.body);
  const title = textOf(fields["title"], "");
  if (title === "") throw unprocessable([{ resource: "Issue", field: "title", code: "missing_field" }]);
  const at = world.now();
  const issue: Issue = {
    number: nextNumber(repository),
    author: login,
    title,
    body: limited("Issue", textOf(fields["body"], "")),
    state: "open",
    labels: [...new Set(textsOf(fields["labels"]))],
    createdAt: at,
    updatedAt: at,
  };
  repository.issues.push(issue);
  return { status: 201, body: issueBody(repository, issue, false) };
}

async function readIssue(call: Call): Promise<Reply> {
  const { subject, isPull } = requireSubject(call);
  return { status: 200, body: issueBody(call.repository, subject, isPull) };
}

async function setLabels(call: Call): Promise<Reply> {
  const { subject } = requireSubject(call);
  subject.labels = [...new Set(textsOf(fieldsOf(call.incoming.body)["labels"]))];
  subject.updatedAt = call.world.now();
  return { status: 200, body: subject.labels.map((name) => ({ name })) };
}

async function listComments(call: Call): Promise<Reply> {
  const { subject } = requireSubject(call);
  const { repository } = call;
  const comments = repository.comments.filter(({ on }) => on === subject.number);
  return pageOf(
    call.incoming,
    comments.map((comment) => commentBody(repository, comment)),
  );
}

async function addComment(call: Call): Promise<Reply> {
  const { subject } = requireSubject(call);
  const { repository, login } = call;
  const body = limited("IssueComment", textOf(fieldsOf(call.incoming.body)["body"], ""));
  if (body === "") throw unprocessable([{ resource: "IssueComment", field: "body", code: "missing_field" }]);
  const comment = { id: (repository.comments.at(-1)?.id ?? 0) + 1, on: subject.number, author: login, body };
  repository.comments.push(comment);
  subject.updatedAt = call.world.now();
  return { status: 201, body: commentBody(repository, comment) };
}

async function deleteComment({ repository, match }: Call): Promise<Reply> {
  const at = repository.comments.findIndex(({ id }) => id === Number(match[1]));
  if (at === -1) throw notFound();
  repository.comments.splice(at, 1);
  return { status: 204, body: undefined };
}

function limited(resource: string, body: string): string {
  if (body.length <= 65_536) return body;
  const message = "body is too long (maximum is 65536 characters)";
  throw new Refused({
    status: 422,
    body: { message: "Validation Failed", errors: [{ resource, code: "custom", field: "body", message }] },
  });
}

function requireSubject({ repository, match }: Call): { readonly subject: Issue | Pull; readonly isPull: boolean } {
  const number = Number(match[1]);
  const pull = repository.pulls.find((one) => one.number === number);
  const subject = pull ?? repository.issues.find((one) => one.number === number);
  if (subject === undefined) throw notFound();
  return { subject, isPull: pull !== undefined };
}

const pullRoutes: readonly Route[] = [
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
      // GitHub ignores a head that is not owner:branch, and returns everything.
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

export interface GithubServer extends ForgeServer {
  readonly world: GithubState;
}

/**
 * GitHub on loopback: its REST API as far as Holdfast uses it, and its GraphQL as far as the usual commands of `gh` use it. It has real
 * bare repositories that are also served to git. The API is under `/`, like api.github.com, and under `/api/v3/`, like an Enterprise
 * server.
 */
export async function startGithubServer(): Promise<GithubServer> {
  const world = new GithubState();
  const server = await startForgeServer({
    handle: (incoming) => handle(world, incoming),
    bareOf: (name) => world.repositories.get(name.toLowerCase())?.bare.path ?? null,
  });
  return { ...server, world };
}

const ROUTES: readonly Route[] = [...issueRoutes, ...pullRoutes, ...checkRoutes];

async function handle(world: GithubState, incoming: Incoming): Promise<Reply> {
  const login = world.requireLogin(incoming, "Bad credentials");
  const path = incoming.path.replace(/^\/(?:api\/v3\/)?/, "");
  if (/^(?:api\/)?graphql$/.test(path))
    return await answerGraph({ world, login, incoming, rest: (inner) => handle(world, inner) });
  if (path === "user") return { status: 200, body: { login } };
  const [, owner, name, rest = ""] = /^repos\/([^/]+)\/([^/]+)(?:\/(.+))?$/.exec(path) ?? [];
  if (owner === undefined || name === undefined) throw notFound();
  const repository = world.require(owner, name);
  if (rest === "" && incoming.method === "GET") return { status: 200, body: await repositoryBody(repository) };
  const reply = await follow(ROUTES, rest, { world, repository, incoming, login });
  if (reply === null) throw notFound();
  return reply;
}

interface RepositoryContext {
  readonly world: GithubState;
  readonly repository: Repository;
  readonly login: string;
}

/** One request about one repository. */
type Call = RoutedCall<RepositoryContext>;
/** Its path is what follows `repos/owner/name/`. */
type Route = AnyRoute<RepositoryContext>;

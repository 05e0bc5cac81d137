// The GraphQL API of the loopback GitHub, as far as the commands of `gh` use it.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { GraphQLError, type GraphQLSchema, buildSchema, execute, parse, specifiedRules, validate } from "graphql";
import { type Handler, type Incoming, type Reply, fieldsOf, textOf, textsOf } from "./forge-server.ts";
import { type GithubState, type Issue, type Pull, type Repository, followHead, mergeState } from "./github-state.ts";

/** Answers queries on GitHub's own schema, as far as the commands of `gh` use it. Writes go through the REST routes. */
export async function answerGraph(params: {
  readonly world: GithubState;
  readonly login: string;
  readonly incoming: Incoming;
  readonly rest: Handler;
}): Promise<Reply> {
  const fields = fieldsOf(params.incoming.body);
  const known = schema();
  const document = parse(textOf(fields["query"], ""));
  const wrong = validate(known, document, RULES);
  if (wrong.length > 0) return { status: 200, body: { errors: wrong.map(toJson) } };
  const result = await execute({
    schema: known,
    document,
    rootValue: graphRoot(params),
    variableValues: fieldsOf(fields["variables"]),
    operationName: textOf(fields["operationName"], "") || null,
  });
  const { data, errors } = result;
  return { status: 200, body: errors === undefined ? { data } : { data, errors: errors.map(toJson) } };
}

/** GitHub allows fields of the same name with different types to overlap, and `gh` depends on it. */
const RULES = specifiedRules.filter(({ name }) => name !== "OverlappingFieldsCanBeMergedRule");

let built: GraphQLSchema | undefined;

/** Building takes two seconds, so it happens once per process, and only on demand. */
function schema(): GraphQLSchema {
  if (built !== undefined) return built;
  const path = fileURLToPath(new URL("schema.graphql", import.meta.resolve("@octokit/graphql-schema")));
  built = buildSchema(readFileSync(path, "utf8"), { assumeValid: true });
  return built;
}

/** A missing object has its own error type: `gh` recognizes it by that. */
function toJson(error: GraphQLError): object {
  const type = error.extensions["type"];
  return { ...error.toJSON(), ...(typeof type === "string" ? { type } : {}) };
}

type Args = Readonly<Record<string, unknown>>;

/** The root queries and mutations that `gh` uses. */
function graphRoot(params: {
  readonly world: GithubState;
  readonly login: string;
  readonly incoming: Incoming;
  readonly rest: Handler;
}): Args {
  const { world, login } = params;
  const inputOf = (args: Args): Args => fieldsOf(args["input"]);
  const act = async (method: string, path: string, body: object): Promise<void> => {
    const { status, body: answer } = await params.rest({ ...params.incoming, method, path, body });
    if (status >= 300) throw new GraphQLError(messageOf(answer));
  };
  const subject = (
    id: unknown,
  ): { readonly repository: Repository; readonly item: Issue | Pull; readonly path: string } => {
    const [, repositoryId, number] = /^S_(\d+)_(\d+)$/.exec(textOf(id, "")) ?? [];
    const repository = byId(world, Number(repositoryId));
    const item = [...repository.pulls, ...repository.issues].find((one) => one.number === Number(number));
    if (item === undefined) throw absent("node");
    return { repository, item, path: `/repos/${repository.owner}/${repository.name}` };
  };
  return {
    viewer: { __typename: "User", id: `U_${login}`, login },
    repository: ({ owner, name }: Args) => {
      const found = world.repositories.get(`${textOf(owner, "")}/${textOf(name, "")}`.toLowerCase());
      if (found === undefined) throw absent(`Repository with the name '${textOf(owner, "")}/${textOf(name, "")}'`);
      return repositoryNode(found);
    },
    node: ({ id }: Args) => {
      const { repository, item } = subject(id);
      return "headCommit" in item ? pullNode(repository, item) : issueNode(repository, item);
    },
    createIssue: async (args: Args) => {
      const { repositoryId, title, body } = inputOf(args);
      const repository = byId(world, Number(textOf(repositoryId, "").slice(2)));
      await act("POST", `/repos/${repository.owner}/${repository.name}/issues`, { title, body });
      return { issue: issueNode(repository, last(repository.issues)) };
    },
    createPullRequest: async (args: Args) => {
      const { repositoryId, title, body, draft, headRefName, baseRefName } = inputOf(args);
      const repository = byId(world, Number(textOf(repositoryId, "").slice(2)));
      const request = { title, body, draft, head: headRefName, base: baseRefName };
      await act("POST", `/repos/${repository.owner}/${repository.name}/pulls`, request);
      return { pullRequest: pullNode(repository, last(repository.pulls)) };
    },
    addComment: async (args: Args) => {
      const { subjectId, body } = inputOf(args);
      const { repository, item, path } = subject(subjectId);
      await act("POST", `${path}/issues/${item.number}/comments`, { body });
      const node = {
        url: `https://github.com${path.slice(6)}/issues/${item.number}#issuecomment-${last(repository.comments).id}`,
      };
      return { commentEdge: { node } };
    },
    mergePullRequest: async (args: Args) => {
      const { pullRequestId, mergeMethod, expectedHeadOid } = inputOf(args);
      const { item, path } = subject(pullRequestId);
      const sha = expectedHeadOid === undefined || expectedHeadOid === null ? {} : { sha: expectedHeadOid };
      const merge_method = textOf(mergeMethod, "MERGE").toLowerCase();
      await act("PUT", `${path}/pulls/${item.number}/merge`, { merge_method, ...sha });
      return { clientMutationId: null };
    },
  };
}

function byId(world: GithubState, id: number): Repository {
  const found = [...world.repositories.values()].find((one) => one.id === id);
  if (found === undefined) throw absent("repository");
  return found;
}

function absent(what: string): GraphQLError {
  return new GraphQLError(`Could not resolve to a ${what}.`, { extensions: { type: "NOT_FOUND" } });
}

function last<T>(all: readonly T[]): T {
  const one = all.at(-1);
  if (one === undefined) throw absent("node");
  return one;
}

function messageOf(answer: unknown): string {
  const { message, errors } = fieldsOf(answer);
  const [first] = Array.isArray(errors) ? errors : [];
  return textOf(fieldsOf(first)["message"], textOf(message, "refused"));
}

type Node = Readonly<Record<string, unknown>>;

/** The functions below build objects as GraphQL has them: plain values, and functions for fields that need an argument or git. */
function repositoryNode(repository: Repository): Node {
  const { id, owner, name, rules } = repository;
  const url = urlOf(repository);
  const subject = (number: unknown, kinds: readonly ("issue" | "pull")[]): Node => {
    const pull = repository.pulls.find((one) => one.number === number);
    if (pull !== undefined && kinds.includes("pull")) return pullNode(repository, pull);
    const issue = repository.issues.find((one) => one.number === number);
    if (issue !== undefined && kinds.includes("issue")) return issueNode(repository, issue);
    const what = kinds.length === 2 ? "an issue or pull request" : kinds[0] === "pull" ? "a PullRequest" : "an Issue";
    throw new GraphQLError(`Could not resolve to ${what} with the number of ${String(number)}.`, {
      extensions: { type: "NOT_FOUND" },
    });
  };
  return {
    __typename: "Repository",
    id: `R_${id}`,
    name,
    nameWithOwner: `${owner}/${name}`,
    owner: user(owner),
    url,
    isPrivate: false,
    isFork: repository.parent !== null,
    parent:
      repository.parent === null ? null : () => (repository.parent === null ? null : repositoryNode(repository.parent)),
    hasIssuesEnabled: true,
    hasWikiEnabled: false,
    description: "",
    viewerPermission: "WRITE",
    viewerDefaultMergeMethod: "MERGE",
    mergeCommitAllowed: rules.methods.includes("merge"),
    squashMergeAllowed: rules.methods.includes("squash"),
    rebaseMergeAllowed: rules.methods.includes("rebase"),
    defaultBranchRef: async () => ({ name: await repository.bare.head() }),
    issueTemplates: [],
    pullRequestTemplates: [],
    issue: ({ number }: Args) => subject(number, ["issue"]),
    pullRequest: ({ number }: Args) => subject(number, ["pull"]),
    issueOrPullRequest: ({ number }: Args) => subject(number, ["issue", "pull"]),
    issues: ({ states }: Args) =>
      connection(chosen(repository.issues, states).map((issue) => issueNode(repository, issue))),
    pullRequests: async ({ states, headRefName }: Args) => {
      await Promise.all(repository.pulls.map((pull) => followHead(repository, pull)));
      const named = repository.pulls.filter(({ head }) => textOf(headRefName, head.branch) === head.branch);
      return connection(chosen(named, states).map((pull) => pullNode(repository, pull)));
    },
  };
}

function issueNode(repository: Repository, issue: Issue): Node {
  return { __typename: "Issue", ...common(repository, issue, "issues"), state: issue.state.toUpperCase() };
}

function pullNode(repository: Repository, pull: Pull): Node {
  const merge = async (): Promise<Awaited<ReturnType<typeof mergeState>>> => {
    await followHead(repository, pull);
    return await mergeState(repository, pull);
  };
  return {
    __typename: "PullRequest",
    ...common(repository, pull, "pull"),
    state: pull.mergeCommit === null ? pull.state.toUpperCase() : "MERGED",
    isDraft: pull.draft,
    isCrossRepository: pull.head.repository !== repository,
    maintainerCanModify: true,
    headRefName: pull.head.branch,
    headRefOid: pull.headCommit,
    headRepository: () => repositoryNode(pull.head.repository),
    headRepositoryOwner: user(pull.head.repository.owner),
    baseRefName: pull.base,
    baseRef: null,
    mergedAt: pull.mergeCommit === null ? null : pull.updatedAt,
    mergeCommit: pull.mergeCommit === null ? null : { oid: pull.mergeCommit },
    mergeable: async () => MERGEABLE[String((await merge()).mergeable)],
    mergeStateStatus: async () => (await merge()).state.toUpperCase(),
    reviewDecision: repository.rules.approvals ? "REVIEW_REQUIRED" : null,
    additions: 1,
    deletions: 0,
    changedFiles: 1,
    autoMergeRequest: null,
    isInMergeQueue: false,
    isMergeQueueEnabled: false,
    reviewRequests: connection([]),
    reviews: connection([]),
    latestReviews: connection([]),
    closingIssuesReferences: connection([]),
    commits: connection([{ commit: { oid: pull.headCommit, statusCheckRollup: rollup(repository, pull.headCommit) } }]),
    statusCheckRollup: rollup(repository, pull.headCommit),
  };
}

const MERGEABLE: Readonly<Record<string, string>> = { true: "MERGEABLE", false: "CONFLICTING", null: "UNKNOWN" };

function common(repository: Repository, item: Issue, kind: "issues" | "pull"): Node {
  const comments = repository.comments.filter(({ on }) => on === item.number);
  return {
    id: `S_${repository.id}_${item.number}`,
    number: item.number,
    title: item.title,
    body: item.body ?? "",
    url: `${urlOf(repository)}/${kind}/${item.number}`,
    author: user(item.author),
    createdAt: item.createdAt,
    updatedAt: item.updatedAt,
    closed: item.state === "closed",
    closedAt: item.state === "closed" ? item.updatedAt : null,
    labels: connection(item.labels.map((name) => ({ id: name, name, color: "ededed", description: null }))),
    assignees: connection([]),
    projectCards: connection([]),
    reactionGroups: [],
    milestone: null,
    comments: connection(
      comments.map(({ id, author, body, on }) => ({
        id: `C_${id}`,
        author: user(author),
        authorAssociation: "OWNER",
        body,
        createdAt: item.createdAt,
        includesCreatedEdit: false,
        isMinimized: false,
        minimizedReason: null,
        reactionGroups: [],
        url: `${urlOf(repository)}/${kind}/${on}#issuecomment-${id}`,
        viewerDidAuthor: true,
      })),
    ),
  };
}

function rollup(repository: Repository, commit: string): Node | null {
  const runs = repository.checkRuns.filter((run) => run.commit === commit);
  const statuses = repository.statuses.filter((status) => status.commit === commit);
  if (runs.length + statuses.length === 0) return null;
  const started = { startedAt: "2026-01-01T00:00:00Z", completedAt: "2026-01-01T00:01:00Z" };
  const contexts = [
    ...runs.map(({ id, name, status, conclusion }) => ({
      __typename: "CheckRun",
      id: `K_${id}`,
      name,
      status: status.toUpperCase(),
      conclusion: conclusion?.toUpperCase() ?? null,
      detailsUrl: `${urlOf(repository)}/runs/${id}`,
      isRequired: false,
      checkSuite: { workflowRun: null },
      ...started,
    })),
    ...statuses.map(({ context, state, description }) => ({
      __typename: "StatusContext",
      id: `X_${context}`,
      context,
      state: state.toUpperCase(),
      description,
      targetUrl: null,
      isRequired: false,
      createdAt: started.startedAt,
    })),
  ];
  return { id: `Z_${commit}`, state: "SUCCESS", contexts: connection(contexts) };
}

/** Newest first, and all on one page: no test needs more. */
function chosen<T extends Issue>(all: readonly T[], states: unknown): readonly T[] {
  const wanted = textsOf(states).map((state) => state.toLowerCase());
  return all.filter(({ state }) => wanted.length === 0 || wanted.includes(state)).toReversed();
}

function connection(nodes: readonly object[]): Node {
  const edges = nodes.map((node) => ({ node, cursor: "" }));
  const pageInfo = { hasNextPage: false, hasPreviousPage: false, endCursor: null, startCursor: null };
  return { nodes, edges, totalCount: nodes.length, pageInfo };
}

function user(login: string): Node {
  return { __typename: "User", id: `U_${login}`, login, name: login };
}

function urlOf({ owner, name }: Repository): string {
  return `https://github.com/${owner}/${name}`;
}

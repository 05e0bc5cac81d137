import { GraphQLError } from "graphql";
import { textOf, textsOf } from "../forge-server/exchange.ts";
import { followHead, mergeState } from "./merge-state.ts";
import type { Issue, Pull, Repository } from "./world.ts";

type Args = Readonly<Record<string, unknown>>;
type Node = Readonly<Record<string, unknown>>;

/** Things as GraphQL has them: plain values, and functions where an argument or git has a say. */
export function repositoryNode(repository: Repository): Node {
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

export function issueNode(repository: Repository, issue: Issue): Node {
  return { __typename: "Issue", ...common(repository, issue, "issues"), state: issue.state.toUpperCase() };
}

export function pullNode(repository: Repository, pull: Pull): Node {
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

/** Newest first, and all on one page: no test asks a porcelain command for more. */
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

import { GraphQLError } from "graphql";
import { fieldsOf, textOf, type Handler, type Incoming } from "../forge-server/exchange.ts";
import { issueNode, pullNode, repositoryNode } from "./graph-nodes.ts";
import type { Issue, Pull, Repository, World } from "./world.ts";

type Args = Readonly<Record<string, unknown>>;

/** What can be asked and done from the top, as `gh` does it. */
export function graphRoot(params: {
  readonly world: World;
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

function byId(world: World, id: number): Repository {
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

import type { Branch } from "../../ports/branch.ts";
import type { Forge } from "../../ports/forge.ts";

/** Stands between a question to the outside and its answer. */
export type Wrap = <A extends readonly unknown[], R>(
  method: string,
  ask: (...args: A) => Promise<R>,
) => (...args: A) => Promise<R>;

/** A forge all of whose methods go through `wrap`. */
export function eachForgeQuestion(forge: Forge, marked: Forge["marked"], wrap: Wrap): Forge {
  const { name, location, lateMs } = forge;
  return {
    name,
    location,
    lateMs,
    marked,
    getIssue: wrap("getIssue", (number: number) => forge.getIssue(number)),
    createIssue: wrap("createIssue", (...args: Parameters<Forge["createIssue"]>) => forge.createIssue(...args)),
    findIssue: wrap("findIssue", (key: string) => forge.findIssue(key)),
    setLabels: wrap("setLabels", (...args: Parameters<Forge["setLabels"]>) => forge.setLabels(...args)),
    findComment: wrap("findComment", (...args: Parameters<Forge["findComment"]>) => forge.findComment(...args)),
    comment: wrap("comment", (...args: Parameters<Forge["comment"]>) => forge.comment(...args)),
    defaultBranch: wrap("defaultBranch", () => forge.defaultBranch()),
    findPullRequest: wrap("findPullRequest", (head: string) => forge.findPullRequest(head)),
    getPullRequest: wrap("getPullRequest", (number: number) => forge.getPullRequest(number)),
    createPullRequest: wrap("createPullRequest", (...args: Parameters<Forge["createPullRequest"]>) =>
      forge.createPullRequest(...args),
    ),
    updatePullRequest: wrap("updatePullRequest", (...args: Parameters<Forge["updatePullRequest"]>) =>
      forge.updatePullRequest(...args),
    ),
    mergePullRequest: wrap("mergePullRequest", (...args: Parameters<Forge["mergePullRequest"]>) =>
      forge.mergePullRequest(...args),
    ),
    checks: wrap("checks", (commit: string) => forge.checks(commit)),
    reviews: wrap("reviews", (number: number) => forge.reviews(number)),
  };
}

/** A branch whose questions about remotes, and to them, go through `wrap`. The rest is of the repository itself. */
export function eachRemoteQuestion(branch: Branch, wrap: Wrap): Branch {
  return {
    ...branch,
    remote: wrap("branch.remote", () => branch.remote()),
    pushRemote: wrap("branch.pushRemote", () => branch.pushRemote()),
    fetch: wrap("branch.fetch", () => branch.fetch()),
    remoteBranch: wrap("branch.remoteBranch", (name: string) => branch.remoteBranch(name)),
    lookUpRemote: wrap("branch.lookUpRemote", (name: string) => branch.lookUpRemote(name)),
    defaultBranch: wrap("branch.defaultBranch", () => branch.defaultBranch()),
    inspectPush: wrap("branch.inspectPush", (params: Parameters<Branch["inspectPush"]>[0]) =>
      branch.inspectPush(params),
    ),
    push: wrap("branch.push", (params: Parameters<Branch["push"]>[0]) => branch.push(params)),
  };
}

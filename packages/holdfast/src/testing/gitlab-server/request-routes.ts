import { closedIssues } from "../../forges/closing-words.ts";
import { fieldsOf, Refused, textOf, type Reply } from "../forge-server/exchange.ts";
import { pageOf } from "../forge-server/page.ts";
import { addNote, labelsOf } from "./issue-routes.ts";
import { notFound, type GitlabCall, type GitlabRequest, type GitlabRoute, type Project } from "./projects.ts";

export const requestRoutes: readonly GitlabRoute[] = [
  { method: "GET", path: /^merge_requests$/, run: listRequests },
  { method: "POST", path: /^merge_requests$/, run: createRequest },
  { method: "GET", path: /^merge_requests\/(\d+)$/, run: readRequest },
  { method: "PUT", path: /^merge_requests\/(\d+)$/, run: updateRequest },
  { method: "PUT", path: /^merge_requests\/(\d+)\/merge$/, run: merge },
  {
    method: "GET",
    path: /^merge_requests\/(\d+)\/notes$/,
    run: async (call) => pageOf(call.incoming, requestOf(call).notes),
  },
  { method: "POST", path: /^merge_requests\/(\d+)\/notes$/, run: async (call) => addNote(call, requestOf(call).notes) },
  { method: "GET", path: /^merge_requests\/(\d+)\/approvals$/, run: readApprovals },
];

async function listRequests({ project, incoming }: GitlabCall): Promise<Reply> {
  const branch = incoming.query.get("source_branch");
  const found = project.requests.filter(({ source }) => branch === null || source.branch === branch).toReversed();
  await Promise.all(found.map((request) => followHead(project, request)));
  return pageOf(
    incoming,
    found.map((request) => view(project, request, "unchecked")),
  );
}

async function createRequest({ projects, project: source, incoming }: GitlabCall): Promise<Reply> {
  const fields = fieldsOf(incoming.body);
  const target =
    fields["target_project_id"] === undefined ? source : projects.require(String(fields["target_project_id"]));
  const [branch, base] = [textOf(fields["source_branch"], ""), textOf(fields["target_branch"], "")];
  const sha = await source.bare.tip(branch);
  if (sha === null) throw new Refused({ status: 400, body: { message: { source_branch: ["does not exist"] } } });
  const there = target.requests.find(
    (one) =>
      one.state === "opened" && one.source.project === source && one.source.branch === branch && one.target === base,
  );
  if (there !== undefined) {
    const message = [`Another open merge request already exists for this source branch: !${there.iid}`];
    throw new Refused({ status: 409, body: { message } });
  }
  const request: GitlabRequest = {
    iid: target.requests.length + 1,
    title: textOf(fields["title"], ""),
    description: textOf(fields["description"], ""),
    state: "opened",
    source: { project: source, branch },
    target: base,
    sha,
    labels: labelsOf(textOf(fields["labels"], "")),
    notes: [],
    approvers: [],
    reckoned: null,
  };
  target.requests.push(request);
  await bringIn(target, request);
  return { status: 201, body: view(target, request, "preparing") };
}

async function readRequest(call: GitlabCall): Promise<Reply> {
  const request = requestOf(call);
  await followHead(call.project, request);
  return { status: 200, body: view(call.project, request, await statusOf(call.project, request)) };
}

async function updateRequest(call: GitlabCall): Promise<Reply> {
  const request = requestOf(call);
  const fields = fieldsOf(call.incoming.body);
  request.title = textOf(fields["title"], request.title);
  request.description = textOf(fields["description"], request.description);
  if (typeof fields["labels"] === "string") request.labels = labelsOf(fields["labels"]);
  return await readRequest(call);
}

async function readApprovals(call: GitlabCall): Promise<Reply> {
  const approved_by = requestOf(call).approvers.map((username) => ({ user: { username } }));
  return { status: 200, body: { approved_by } };
}

async function merge(call: GitlabCall): Promise<Reply> {
  const { project } = call;
  const request = requestOf(call);
  await followHead(project, request);
  const sha = textOf(fieldsOf(call.incoming.body)["sha"], request.sha);
  if (sha !== request.sha)
    throw new Refused({ status: 409, body: { message: "SHA does not match HEAD of source branch" } });
  const base = await project.bare.tip(request.target);
  request.reckoned = `${base}..${request.sha}`;
  if (base === null || (await statusOf(project, request)) !== "mergeable")
    throw new Refused({ status: 405, body: { message: "405 Method Not Allowed" } });
  const tree = await project.bare.mergedTree(base, request.sha);
  const commit = await project.bare.commitTree(
    tree ?? "",
    [base, request.sha],
    `Merge branch '${request.source.branch}'`,
  );
  await project.bare.move(request.target, commit, base);
  request.state = "merged";
  for (const number of closedIssues(request.description)) {
    const issue = project.issues.find(({ iid }) => iid === number);
    if (issue !== undefined) issue.state = "closed";
  }
  return await readRequest(call);
}

async function followHead(project: Project, request: GitlabRequest): Promise<void> {
  const tip = await request.source.project.bare.tip(request.source.branch);
  if (request.state !== "opened" || tip === null || tip === request.sha) return;
  request.sha = tip;
  await bringIn(project, request);
}

async function bringIn(project: Project, { source, iid }: GitlabRequest): Promise<void> {
  await project.bare.fetchFrom(source.project.bare, source.branch, `refs/merge-requests/${iid}/head`);
}

/** Whoever asks first after a change is told that it is being looked at. */
async function statusOf(project: Project, request: GitlabRequest): Promise<string> {
  const base = await project.bare.tip(request.target);
  if (request.state !== "opened" || base === null) return "not_open";
  const pair = `${base}..${request.sha}`;
  if (request.reckoned !== pair) {
    request.reckoned = pair;
    return "checking";
  }
  if ((await project.bare.mergedTree(base, request.sha)) === null) return "conflict";
  if (request.title.startsWith("Draft:")) return "draft_status";
  if (project.rules.approvals) return "not_approved";
  const isBehind = !(await project.bare.isAncestor(base, request.sha));
  return project.rules.fastForward && isBehind ? "need_rebase" : "mergeable";
}

function requestOf({ project, match }: GitlabCall): GitlabRequest {
  const request = project.requests.find(({ iid }) => iid === Number(match[1]));
  if (request === undefined) throw notFound("Merge Request");
  return request;
}

function view(project: Project, request: GitlabRequest, status: string): Readonly<Record<string, unknown>> {
  const { iid, title, description, state, source, target, sha, labels } = request;
  return {
    id: project.id * 1000 + iid,
    iid,
    title,
    description,
    state,
    labels,
    draft: title.startsWith("Draft:"),
    source_branch: source.branch,
    target_branch: target,
    source_project_id: source.project.id,
    target_project_id: project.id,
    sha,
    has_conflicts: status === "conflict",
    detailed_merge_status: status,
    web_url: `https://gitlab.com/${project.path}/-/merge_requests/${iid}`,
  };
}

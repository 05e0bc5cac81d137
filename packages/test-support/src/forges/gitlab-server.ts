// GitLab on loopback: its REST API as far as Holdfast uses it, over real bare repositories.

import { closedIssues } from "@holdfast/forges/body-text";
import {
  Accounts,
  BareRepository,
  type ForgeServer,
  type Incoming,
  Refused,
  type Reply,
  type Route,
  type RoutedCall,
  fieldsOf,
  follow,
  pageOf,
  startForgeServer,
  textOf,
} from "./forge-server.ts";

const issueRoutes: readonly GitlabRoute[] = [
  { method: "GET", path: /^issues$/, run: listIssues },
  { method: "POST", path: /^issues$/, run: createIssue },
  {
    method: "GET",
    path: /^issues\/(\d+)$/,
    run: async (call) => ({ status: 200, body: viewIssue(call.project, issueOf(call)) }),
  },
  { method: "PUT", path: /^issues\/(\d+)$/, run: updateIssue },
  { method: "GET", path: /^issues\/(\d+)\/notes$/, run: async (call) => pageOf(call.incoming, issueOf(call).notes) },
  { method: "POST", path: /^issues\/(\d+)\/notes$/, run: async (call) => addNote(call, issueOf(call).notes) },
  {
    method: "DELETE",
    path: /^issues\/(\d+)\/notes\/(\d+)$/,
    run: async (call) => deleteNote(call, issueOf(call).notes),
  },
];

async function listIssues({ project, incoming, login }: GitlabCall): Promise<Reply> {
  const mine = incoming.query.get("scope") === "created_by_me";
  const found = project.issues.filter((issue) => !mine || issue.author === login).toReversed();
  return pageOf(
    incoming,
    found.map((issue) => viewIssue(project, issue)),
  );
}

async function createIssue({ projects, project, incoming, login }: GitlabCall): Promise<Reply> {
  const fields = fieldsOf(incoming.body);
  const issue: GitlabIssue = {
    iid: project.issues.length + 1,
    author: login,
    title: textOf(fields["title"], ""),
    description: textOf(fields["description"], ""),
    state: "opened",
    labels: labelsOf(textOf(fields["labels"], "")),
    updatedAt: projects.now(),
    notes: [],
  };
  project.issues.push(issue);
  return { status: 201, body: viewIssue(project, issue) };
}

async function updateIssue(call: GitlabCall): Promise<Reply> {
  const issue = issueOf(call);
  const labels = fieldsOf(call.incoming.body)["labels"];
  if (typeof labels === "string") issue.labels = labelsOf(labels);
  issue.updatedAt = call.projects.now();
  return { status: 200, body: viewIssue(call.project, issue) };
}

/** Adds a note to an issue or a merge request. */
function addNote({ projects, incoming, login }: GitlabCall, notes: GitlabNote[]): Reply {
  const body = textOf(fieldsOf(incoming.body)["body"], "");
  if (body === "") throw new Refused({ status: 400, body: { error: "body is missing" } });
  const note = {
    id: projects.nextNote(),
    body,
    author: { username: login },
    system: false,
    created_at: projects.now(),
  };
  notes.push(note);
  return { status: 201, body: note };
}

function deleteNote({ match }: GitlabCall, notes: GitlabNote[]): Reply {
  const at = notes.findIndex(({ id }) => id === Number(match[2]));
  if (at === -1) throw notFound("Note");
  notes.splice(at, 1);
  return { status: 204, body: undefined };
}

function labelsOf(text: string): string[] {
  return text.split(",").flatMap((label) => (label.trim() === "" ? [] : [label.trim()]));
}

function issueOf({ project, match }: GitlabCall): GitlabIssue {
  const issue = project.issues.find(({ iid }) => iid === Number(match[1]));
  if (issue === undefined) throw notFound("Issue");
  return issue;
}

function viewIssue(project: Project, issue: GitlabIssue): Readonly<Record<string, unknown>> {
  const { iid, title, description, state, labels, updatedAt } = issue;
  const web_url = `https://gitlab.com/${project.path}/-/issues/${iid}`;
  return { id: project.id * 1000 + iid, iid, title, description, state, labels, updated_at: updatedAt, web_url };
}

const repositoryRoutes: readonly GitlabRoute[] = [
  { method: "GET", path: /^repository\/branches\/([^/]+)$/, run: readBranch },
  { method: "GET", path: /^repository\/compare$/, run: compare },
  { method: "GET", path: /^repository\/commits\/([0-9a-f]+)\/statuses$/, run: listStatuses },
  { method: "GET", path: /^jobs\/(\d+)\/trace$/, run: readTrace },
];

async function readBranch({ project, match }: GitlabCall): Promise<Reply> {
  const name = decodeURIComponent(match[1] ?? "");
  const id = await project.bare.tip(name);
  if (id === null) throw notFound("Branch");
  return { status: 200, body: { name, commit: { id } } };
}

async function compare({ project, incoming }: GitlabCall): Promise<Reply> {
  const [from, to] = await Promise.all(["from", "to"].map((name) => project.bare.tip(incoming.query.get(name) ?? "")));
  if (from === null || to === null || from === undefined || to === undefined) throw notFound("Ref");
  return { status: 200, body: { commits: (await project.bare.isAncestor(to, from)) ? [] : [{ id: to }] } };
}

async function listStatuses({ project, match, incoming }: GitlabCall): Promise<Reply> {
  const commit = match[1] ?? "";
  if (!(await project.bare.hasCommit(commit))) throw notFound("Commit");
  const found = project.statuses.filter((status) => status.commit === commit);
  return pageOf(
    incoming,
    found.map(({ id, name, status, description, isJob, allowFailure }) => ({
      id,
      name,
      status,
      description,
      allow_failure: allowFailure,
      target_url: isJob ? `https://gitlab.com/${project.path}/-/jobs/${id}` : null,
    })),
  );
}

async function readTrace({ project, match }: GitlabCall): Promise<Reply> {
  const trace = project.traces.get(Number(match[1]));
  if (trace === undefined) throw notFound("Job");
  return { status: 200, body: trace };
}

const requestRoutes: readonly GitlabRoute[] = [
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
  {
    method: "DELETE",
    path: /^merge_requests\/(\d+)\/notes\/(\d+)$/,
    run: async (call) => deleteNote(call, requestOf(call).notes),
  },
  { method: "GET", path: /^merge_requests\/(\d+)\/approvals$/, run: readApprovals },
];

async function listRequests({ project, incoming }: GitlabCall): Promise<Reply> {
  const branch = incoming.query.get("source_branch");
  const found = project.requests.filter(({ source }) => branch === null || source.branch === branch).toReversed();
  await Promise.all(found.map((request) => followHead(project, request)));
  return pageOf(
    incoming,
    found.map((request) => viewMergeRequest(project, request, "unchecked")),
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
  return { status: 201, body: viewMergeRequest(target, request, "preparing") };
}

async function readRequest(call: GitlabCall): Promise<Reply> {
  const request = requestOf(call);
  await followHead(call.project, request);
  return { status: 200, body: viewMergeRequest(call.project, request, await statusOf(call.project, request)) };
}

async function updateRequest(call: GitlabCall): Promise<Reply> {
  const request = requestOf(call);
  const fields = fieldsOf(call.incoming.body);
  request.title = textOf(fields["title"], request.title);
  request.description = textOf(fields["description"], request.description);
  if (typeof fields["labels"] === "string") request.labels = labelsOf(fields["labels"]);
  if (fields["state_event"] === "close" && request.state === "opened") request.state = "closed";
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

/** The first query after a change answers that the status is being checked. */
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

function viewMergeRequest(project: Project, request: GitlabRequest, status: string): Readonly<Record<string, unknown>> {
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

export interface GitlabServer extends ForgeServer {
  readonly projects: Projects;
}

/** GitLab on loopback: its REST API as far as Holdfast uses it, on real bare repositories that are also served to git. */
export async function startGitlabServer(): Promise<GitlabServer> {
  const projects = new Projects();
  const server = await startForgeServer({
    handle: (incoming) => handle(projects, incoming),
    bareOf: (name) => projects.all.find(({ path }) => path === name)?.bare.path ?? null,
  });
  return { ...server, projects };
}

const ROUTES: readonly GitlabRoute[] = [...issueRoutes, ...requestRoutes, ...repositoryRoutes];

async function handle(projects: Projects, incoming: Incoming): Promise<Reply> {
  const login = projects.requireLogin(incoming, "401 Unauthorized");
  const [, name = "", rest = ""] = /^\/api\/v4\/projects\/([^/]+)(?:\/(.+))?$/.exec(incoming.path) ?? [];
  const project = projects.require(decodeURIComponent(name));
  if (rest === "" && incoming.method === "GET") {
    const { id, path } = project;
    return { status: 200, body: { id, path_with_namespace: path, default_branch: await project.bare.head() } };
  }
  const reply = await follow(ROUTES, rest, { projects, project, incoming, login });
  if (reply === null) throw notFound("Route");
  return reply;
}

/** The whole state of a loopback GitLab, which tests set up and inspect. */
class Projects extends Accounts {
  readonly all: Project[] = [];
  #notes = 0;

  add(params: { readonly path: string; readonly bare: string }): Project {
    const project: Project = {
      id: this.all.length + 1,
      path: params.path,
      bare: new BareRepository(params.bare),
      issues: [],
      requests: [],
      statuses: [],
      traces: new Map(),
      rules: { fastForward: false, approvals: false },
    };
    this.all.push(project);
    return project;
  }

  require(name: string): Project {
    const found = this.all.find(({ id, path }) => String(id) === name || path.toLowerCase() === name.toLowerCase());
    if (found === undefined) throw new Refused({ status: 404, body: { message: "404 Project Not Found" } });
    return found;
  }

  nextNote(): number {
    this.#notes += 1;
    return this.#notes;
  }
}

export interface Project {
  readonly id: number;
  readonly path: string;
  readonly bare: BareRepository;
  readonly issues: GitlabIssue[];
  /** Numbered separately from issues. */
  readonly requests: GitlabRequest[];
  readonly statuses: GitlabStatus[];
  /** Log of each job. */
  readonly traces: Map<number, string>;
  readonly rules: {
    /** Only a head that contains its base is merged. */
    fastForward: boolean;
    approvals: boolean;
  };
}

interface GitlabIssue {
  readonly iid: number;
  readonly author: string;
  title: string;
  description: string | null;
  state: "opened" | "closed";
  labels: string[];
  updatedAt: string;
  readonly notes: GitlabNote[];
}

export interface GitlabNote {
  readonly id: number;
  readonly body: string;
  readonly author: { readonly username: string };
  readonly system: boolean;
  readonly created_at: string;
  readonly resolved?: boolean;
  readonly position?: { readonly head_sha: string; readonly new_path: string; readonly new_line: number };
}

interface GitlabRequest {
  readonly iid: number;
  title: string;
  description: string;
  state: "opened" | "closed" | "merged";
  readonly source: { readonly project: Project; readonly branch: string };
  readonly target: string;
  sha: string;
  labels: string[];
  readonly notes: GitlabNote[];
  /** Users whose approval counts. */
  readonly approvers: string[];
  /** Head and base for which the mergeability is computed; for others it must be computed again. */
  reckoned: string | null;
}

interface GitlabStatus {
  readonly id: number;
  readonly commit: string;
  readonly name: string;
  readonly status: string;
  readonly description: string | null;
  readonly isJob: boolean;
  readonly allowFailure: boolean;
}

interface ProjectContext {
  readonly projects: Projects;
  readonly project: Project;
  readonly login: string;
}

type GitlabCall = RoutedCall<ProjectContext>;
/** Its path is what follows `projects/:id/`. */
type GitlabRoute = Route<ProjectContext>;

function notFound(what: string): Refused {
  return new Refused({ status: 404, body: { message: `404 ${what} Not Found` } });
}

import { fieldsOf, Refused, textOf, type Reply } from "../forge-server/exchange.ts";
import { pageOf } from "../forge-server/page.ts";
import {
  notFound,
  type GitlabCall,
  type GitlabIssue,
  type GitlabNote,
  type GitlabRoute,
  type Project,
} from "./projects.ts";

export const issueRoutes: readonly GitlabRoute[] = [
  { method: "GET", path: /^issues$/, run: listIssues },
  { method: "POST", path: /^issues$/, run: createIssue },
  {
    method: "GET",
    path: /^issues\/(\d+)$/,
    run: async (call) => ({ status: 200, body: view(call.project, issueOf(call)) }),
  },
  { method: "PUT", path: /^issues\/(\d+)$/, run: updateIssue },
  { method: "GET", path: /^issues\/(\d+)\/notes$/, run: async (call) => pageOf(call.incoming, issueOf(call).notes) },
  { method: "POST", path: /^issues\/(\d+)\/notes$/, run: async (call) => addNote(call, issueOf(call).notes) },
];

async function listIssues({ project, incoming, login }: GitlabCall): Promise<Reply> {
  const mine = incoming.query.get("scope") === "created_by_me";
  const found = project.issues.filter((issue) => !mine || issue.author === login).toReversed();
  return pageOf(
    incoming,
    found.map((issue) => view(project, issue)),
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
  return { status: 201, body: view(project, issue) };
}

async function updateIssue(call: GitlabCall): Promise<Reply> {
  const issue = issueOf(call);
  const labels = fieldsOf(call.incoming.body)["labels"];
  if (typeof labels === "string") issue.labels = labelsOf(labels);
  issue.updatedAt = call.projects.now();
  return { status: 200, body: view(call.project, issue) };
}

/** Of an issue or a merge request. */
export function addNote({ projects, incoming, login }: GitlabCall, notes: GitlabNote[]): Reply {
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

export function labelsOf(text: string): string[] {
  return text.split(",").flatMap((label) => (label.trim() === "" ? [] : [label.trim()]));
}

function issueOf({ project, match }: GitlabCall): GitlabIssue {
  const issue = project.issues.find(({ iid }) => iid === Number(match[1]));
  if (issue === undefined) throw notFound("Issue");
  return issue;
}

function view(project: Project, issue: GitlabIssue): Readonly<Record<string, unknown>> {
  const { iid, title, description, state, labels, updatedAt } = issue;
  const web_url = `https://gitlab.com/${project.path}/-/issues/${iid}`;
  return { id: project.id * 1000 + iid, iid, title, description, state, labels, updated_at: updatedAt, web_url };
}

import { fieldsOf, Refused, textOf, textsOf, type Reply } from "../forge-server/exchange.ts";
import { pageOf } from "../forge-server/page.ts";
import { commentBody, issueBody } from "./bodies.ts";
import type { Call, Route } from "./route.ts";
import { nextNumber, notFound, unprocessable, type Issue, type Pull } from "./world.ts";

export const issueRoutes: readonly Route[] = [
  { method: "GET", path: /^issues$/, run: listIssues },
  { method: "POST", path: /^issues$/, run: createIssue },
  { method: "GET", path: /^issues\/(\d+)$/, run: readIssue },
  { method: "PUT", path: /^issues\/(\d+)\/labels$/, run: setLabels },
  { method: "GET", path: /^issues\/(\d+)\/comments$/, run: listComments },
  { method: "POST", path: /^issues\/(\d+)\/comments$/, run: addComment },
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
  const comment = { id: repository.comments.length + 1, on: subject.number, author: login, body };
  repository.comments.push(comment);
  subject.updatedAt = call.world.now();
  return { status: 201, body: commentBody(repository, comment) };
}

export function limited(resource: string, body: string): string {
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

import { Document, isMap, parseDocument } from "yaml";
import type { IssueSnapshot } from "../../core/checkpoint/checkpoint.ts";

export type ParsedIssue =
  | { readonly kind: "issue"; readonly issue: Omit<IssueSnapshot, "number"> }
  | { readonly kind: "damaged"; readonly why: string };

/**
 * An issue as a person writes it: YAML front matter (title, labels, state, updatedAt; all optional) and a body. Without a title the
 * first line is one.
 */
export function parseIssue(text: string, changedAt: Date): ParsedIssue {
  const { front, body } = splitFront(text);
  const document = parseDocument(front);
  const [error] = document.errors;
  if (error !== undefined) return damaged(`front matter: ${error.message.split("\n")[0]}`);
  if (front.trim() !== "" && !isMap(document.contents))
    return damaged("front matter: expected `title: …` and the like");
  const fields: Partial<Record<string, unknown>> = { ...document.toJS() };
  const state = fields["state"] ?? "open";
  if (state !== "open" && state !== "closed") return damaged(`state is ${JSON.stringify(state)}, not open or closed`);
  const labels = parseLabels(fields["labels"] ?? []);
  if (labels === undefined) return damaged("labels is not a list of words");
  const updatedAt = parseTime(fields["updatedAt"], changedAt);
  if (updatedAt === undefined) return damaged(`updatedAt is ${JSON.stringify(fields["updatedAt"])}, not a time`);
  const given = fields["title"];
  if (given !== undefined && typeof given !== "string" && typeof given !== "number")
    return damaged("title is not text");
  const named = given === undefined ? titleOf(body) : { title: String(given), body };
  if (named.title.trim() === "") return damaged("it has no title");
  return { kind: "issue", issue: { title: named.title, body: named.body, labels, state, updatedAt } };
}

export function formatIssue(issue: Pick<IssueSnapshot, "title" | "body" | "labels" | "state">): string {
  const labels = [...issue.labels];
  return joinFront(new Document({ title: issue.title, labels, state: issue.state }), issue.body);
}

/** The same text with some fields changed; whatever else the person wrote, and how, stays. */
export function editIssue(
  text: string,
  change: Partial<Pick<IssueSnapshot, "labels" | "state">> & { readonly at: string },
): string {
  const { front, body } = splitFront(text);
  const parsed = parseDocument(front);
  const document: Document = isMap(parsed.contents) ? parsed : new Document({});
  if (change.labels !== undefined) document.set("labels", document.createNode(change.labels, { flow: true }));
  if (change.state !== undefined) document.set("state", change.state);
  if (document.has("updatedAt")) document.set("updatedAt", change.at);
  return joinFront(document, body);
}

function splitFront(text: string): { readonly front: string; readonly body: string } {
  const plain = text.replace(/^\uFEFF/, "").replaceAll("\r\n", "\n");
  const match = /^---[ \t]*\n(?:([\s\S]*?)\n)?---[ \t]*(?:\n|$)/.exec(plain);
  return match === null ? { front: "", body: plain } : { front: match[1] ?? "", body: plain.slice(match[0].length) };
}

function joinFront(document: Document, body: string): string {
  return `---\n${document.toString({ flowCollectionPadding: false, lineWidth: 0 })}---\n${body}`;
}

function titleOf(body: string): { readonly title: string; readonly body: string } {
  const [first = "", ...rest] = body.trimStart().split("\n");
  return { title: first.replace(/^#+\s*/, "").trim(), body: rest.join("\n").trimStart() };
}

function parseLabels(value: unknown): readonly string[] | undefined {
  const items: unknown = typeof value === "string" ? value.split(",") : value;
  if (!Array.isArray(items)) return undefined;
  const labels: string[] = [];
  for (const item of items) {
    if (typeof item !== "string" && typeof item !== "number") return undefined;
    labels.push(String(item).trim());
  }
  return [...new Set(labels.filter((label) => label !== ""))];
}

function parseTime(value: unknown, otherwise: Date): string | undefined {
  if (value === undefined) return otherwise.toISOString();
  const time = typeof value === "string" ? Date.parse(value) : Number.NaN;
  return Number.isNaN(time) ? undefined : new Date(time).toISOString();
}

function damaged(why: string): ParsedIssue {
  return { kind: "damaged", why };
}

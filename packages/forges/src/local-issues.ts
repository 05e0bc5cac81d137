// Issues of the local forge, stored as files with YAML front matter and a body.

import { Document, isMap, parseDocument } from "yaml";
import type { IssueSnapshot } from "@holdfast/core/checkpoint";
import type { Forge } from "@holdfast/core/forge";
import { isRecord } from "@holdfast/core/json";
import { parseYaml } from "@holdfast/platform/yaml";
import { forgeRefused } from "./api.ts";
import { hasMarker, requireKey, requireNumber, requireText, withMarker } from "./body-text.ts";
import {
  type ForgeChange,
  type LocalRepository,
  applyChange,
  corruptFile,
  listNumbers,
  readForgeFile,
  withForgeLock,
} from "./local-repository.ts";

export function readIssue(local: LocalRepository, number: number): IssueSnapshot | null {
  requireNumber(number);
  const path = issuePath(number);
  const file = readForgeFile(local, path);
  if (file === undefined) return null;
  const parsed = parseIssue(file.text, file.changedAt);
  if (parsed.kind === "damaged") throw corruptFile(local, path, parsed.why);
  return { number, ...parsed.issue };
}

export function findIssue(local: LocalRepository, key: string): IssueSnapshot | null {
  requireKey(key);
  for (const number of listNumbers(local, "issues", ".md")) {
    // Only files that contain the key are parsed, so that a file that a user is still writing cannot hide another one.
    if (hasMarker(readForgeFile(local, issuePath(number))?.text ?? "", key)) return readIssue(local, number);
  }
  return null;
}

export function createIssue(
  local: LocalRepository,
  issue: Parameters<Forge["createIssue"]>[0],
): Promise<IssueSnapshot> {
  requireText("title", issue.title);
  const body = withMarker(issue.body, issue.key);
  return withForgeLock(local, async () => {
    const there = findIssue(local, issue.key);
    if (there !== null) return there;
    const text = formatIssue({ title: issue.title, body, labels: [...new Set(issue.labels)], state: "open" });
    const number = createWithNextNumber(local, (next) => ({
      path: issuePath(next),
      text,
      mode: "create",
      what: "issue_created",
      number: next,
      key: issue.key,
    }));
    return requireIssue(local, number);
  });
}

export function setLabels(local: LocalRepository, number: number, labels: readonly string[]): Promise<void> {
  const wanted = [...new Set(labels)];
  return withForgeLock(local, async () => {
    const issue = requireIssue(local, number);
    if (issue.labels.length === wanted.length && wanted.every((label) => issue.labels.includes(label))) return;
    changeIssue(local, { number, change: { labels: wanted }, what: "labels_set" });
  });
}

/** Call it only while holding the forge lock. */
export function closeIssue(local: LocalRepository, number: number): void {
  if (readIssue(local, number)?.state === "open")
    changeIssue(local, { number, change: { state: "closed" }, what: "issue_closed" });
}

/**
 * Uses the next free number. Issues and pull requests share the numbers, so that a number names one thing. Call it only
 * while holding the forge lock.
 */
export function createWithNextNumber(local: LocalRepository, change: (number: number) => ForgeChange): number {
  for (;;) {
    const taken = [...listNumbers(local, "issues", ".md"), ...listNumbers(local, "pulls", ".json")];
    const number = Math.max(0, ...taken) + 1;
    if (applyChange(local, change(number))) return number;
  }
}

function requireIssue(local: LocalRepository, number: number): IssueSnapshot {
  const issue = readIssue(local, number);
  if (issue !== null) return issue;
  const message = `issue ${number} does not exist in ${local.directory}`;
  const hint = `Write issues/${number}.md there, or give another number.`;
  throw forgeRefused(message, hint, { why: "issue_missing", number });
}

function changeIssue(
  local: LocalRepository,
  params: {
    readonly number: number;
    readonly change: Partial<Pick<IssueSnapshot, "labels" | "state">>;
    readonly what: "labels_set" | "issue_closed";
  },
): void {
  const { number, what } = params;
  const path = issuePath(number);
  const at = new Date(local.clock.now()).toISOString();
  const text = editIssue(readForgeFile(local, path)?.text ?? "", { ...params.change, at });
  applyChange(local, { path, text, mode: "replace", what, number, key: null });
}

function issuePath(number: number): string {
  return `issues/${number}.md`;
}

type ParsedIssue =
  | { readonly kind: "issue"; readonly issue: Omit<IssueSnapshot, "number"> }
  | { readonly kind: "damaged"; readonly why: string };

/**
 * Parses an issue as users write it: optional YAML front matter (title, labels, assignees, state, updatedAt) and a body. Without a
 * title, the first line is used.
 */
export function parseIssue(text: string, changedAt: Date): ParsedIssue {
  const { front, body } = splitFront(text);
  const yaml = parseYaml(front);
  if (!yaml.ok) return damaged(`front matter: ${yaml.faults[0]?.message}`);
  if (front.trim() !== "" && !isRecord(yaml.value)) return damaged("front matter: expected `title: …` and the like");
  const fields: Partial<Record<string, unknown>> = isRecord(yaml.value) ? yaml.value : {};
  const state = fields["state"] ?? "open";
  if (state !== "open" && state !== "closed") return damaged(`state is ${JSON.stringify(state)}, not open or closed`);
  const labels = parseLabels(fields["labels"] ?? []);
  if (labels === undefined) return damaged("labels is not a list of words");
  const assignees = parseLabels(fields["assignees"] ?? []);
  if (assignees === undefined) return damaged("assignees is not a list of words");
  const updatedAt = parseTime(fields["updatedAt"], changedAt);
  if (updatedAt === undefined) return damaged(`updatedAt is ${JSON.stringify(fields["updatedAt"])}, not a time`);
  const given = fields["title"];
  if (given !== undefined && typeof given !== "string" && typeof given !== "number")
    return damaged("title is not text");
  const named = given === undefined ? titleOf(body) : { title: String(given), body };
  if (named.title.trim() === "") return damaged("it has no title");
  return {
    kind: "issue",
    issue: {
      title: named.title,
      body: named.body,
      labels,
      ...(assignees.length === 0 ? {} : { assignees }),
      state,
      updatedAt,
    },
  };
}

export function formatIssue(issue: Pick<IssueSnapshot, "title" | "body" | "labels" | "state">): string {
  const labels = [...issue.labels];
  return joinFront(new Document({ title: issue.title, labels, state: issue.state }), issue.body);
}

/** Changes some fields and keeps the rest of the user's text and formatting. */
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

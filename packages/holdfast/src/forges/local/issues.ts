import type { IssueSnapshot } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Forge } from "../../ports/forge.ts";
import { hasMarker, requireKey, withMarker } from "../marker.ts";
import { requireText } from "../require-text.ts";
import { requireNumber } from "../require-number.ts";
import { applyChange, type ForgeChange } from "./change.ts";
import { damagedFile, listNumbers, readForgeFile } from "./forge-file.ts";
import { withForgeLock } from "./forge-lock.ts";
import type { ForgePlace } from "./forge-place.ts";
import { editIssue, formatIssue, parseIssue } from "./issue-file.ts";

export function readIssue(place: ForgePlace, number: number): IssueSnapshot | null {
  requireNumber(number);
  const path = issuePath(number);
  const file = readForgeFile(place, path);
  if (file === undefined) return null;
  const parsed = parseIssue(file.text, file.changedAt);
  if (parsed.kind === "damaged") throw damagedFile(place, path, parsed.why);
  return { number, ...parsed.issue };
}

export function findIssue(place: ForgePlace, key: string): IssueSnapshot | null {
  requireKey(key);
  for (const number of listNumbers(place, "issues", ".md")) {
    // A file that somebody is half-way through writing must not hide another one: only those that carry the key are read in full.
    if (hasMarker(readForgeFile(place, issuePath(number))?.text ?? "", key)) return readIssue(place, number);
  }
  return null;
}

export function createIssue(place: ForgePlace, issue: Parameters<Forge["createIssue"]>[0]): Promise<IssueSnapshot> {
  requireText("title", issue.title);
  const body = withMarker(issue.body, issue.key);
  return withForgeLock(place, async () => {
    const there = findIssue(place, issue.key);
    if (there !== null) return there;
    const text = formatIssue({ title: issue.title, body, labels: [...new Set(issue.labels)], state: "open" });
    const number = createNumbered(place, (next) => ({
      path: issuePath(next),
      text,
      mode: "create",
      what: "issue_created",
      number: next,
      key: issue.key,
    }));
    return requireIssue(place, number);
  });
}

export function setLabels(place: ForgePlace, number: number, labels: readonly string[]): Promise<void> {
  const wanted = [...new Set(labels)];
  return withForgeLock(place, async () => {
    const issue = requireIssue(place, number);
    if (issue.labels.length === wanted.length && wanted.every((label) => issue.labels.includes(label))) return;
    changeIssue(place, { number, change: { labels: wanted }, what: "labels_set" });
  });
}

/** Only under the lock. */
export function closeIssue(place: ForgePlace, number: number): void {
  if (readIssue(place, number)?.state === "open")
    changeIssue(place, { number, change: { state: "closed" }, what: "issue_closed" });
}

/** Under the next free number. Issues and pull requests share them, so that a number names one thing. Only under the lock. */
export function createNumbered(place: ForgePlace, change: (number: number) => ForgeChange): number {
  for (;;) {
    const taken = [...listNumbers(place, "issues", ".md"), ...listNumbers(place, "pulls", ".json")];
    const number = Math.max(0, ...taken) + 1;
    if (applyChange(place, change(number))) return number;
  }
}

function requireIssue(place: ForgePlace, number: number): IssueSnapshot {
  const issue = readIssue(place, number);
  if (issue !== null) return issue;
  throw new HoldfastError({
    code: "FORGE_REFUSED",
    message: `there is no issue ${number} in ${place.directory}`,
    hint: `Write issues/${number}.md there, or name another issue.`,
    data: { why: "issue_missing", number },
  });
}

function changeIssue(
  place: ForgePlace,
  params: {
    readonly number: number;
    readonly change: Partial<Pick<IssueSnapshot, "labels" | "state">>;
    readonly what: "labels_set" | "issue_closed";
  },
): void {
  const { number, what } = params;
  const path = issuePath(number);
  const at = new Date(place.clock.now()).toISOString();
  const text = editIssue(readForgeFile(place, path)?.text ?? "", { ...params.change, at });
  applyChange(place, { path, text, mode: "replace", what, number, key: null });
}

function issuePath(number: number): string {
  return `issues/${number}.md`;
}

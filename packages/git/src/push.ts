// Pushes the run's branch with a lease on the remote commit, and inspects what a push would publish.

import { devNull } from "node:os";
import { learnCopy } from "@holdfast/core/copy-files";
import { type KnownSecret, copiedBlobs, ownSecrets } from "@holdfast/core/known-secrets";
import { isObjectId } from "@holdfast/core/journal";
import { type FoundSecret, findSecrets, hasOutsideEffect, maskSecrets } from "@holdfast/core/mask";
import type { Asking, PushInspection, PushRefusal, PushResult, PushedSecret, Remote } from "@holdfast/core/branch";
import { usageError } from "@holdfast/platform/error";
import { gitError } from "@holdfast/platform/git-command";
import { type BranchContext, type RepositoryContext, isAncestor, requireTip } from "./branch-refs.ts";
import { createKeptOutCheck, readKeptOut } from "./capture.ts";
import { batchObjects, linesOf } from "./objects.ts";
import { type RawPath, parsePath, pathBytes } from "./paths.ts";
import {
  NO_REMOTE,
  classifyRemoteFailure,
  findRemote,
  listRemoteTips,
  lookUpRemote,
  parsePushReport,
  runUserGit,
} from "./remote.ts";

/**
 * Pushes the branch only if the remote has the expected commit; after a rebase that is the commit of the last push. An
 * up-to-date remote is not pushed to again.
 */
export async function pushBranch(
  at: BranchContext,
  params: { readonly expected: string | null; readonly configured: string | null },
): Promise<PushResult> {
  const { expected } = params;
  if (expected !== null && !isObjectId(expected)) {
    throw usageError(
      `${JSON.stringify(expected)} is not a commit id`,
      "Name the whole id of the last commit that was pushed, or null for none.",
    );
  }
  const remote = await findRemote(at, params.configured, "push");
  if (remote === null) return { kind: "refused", refusal: NO_REMOTE };
  const commit = await requireTip(at);
  const { flag, refusal } = await pushRef(at, remote, { ref: at.ref, expected, source: at.ref });
  if (refusal === null)
    return flag === "=" ? { kind: "up_to_date", commit } : { kind: "pushed", commit, forced: flag === "+" };
  if (refusal.cause !== "stale_lease") return { kind: "refused", refusal };
  const there = await lookUpRemote(at, params.configured, { branch: at.name, own: at.name });
  // The connection broke after the push had arrived, and the transport retried by itself. The remote refused that
  // retry.
  if (there.kind === "known" && there.commit === commit) return { kind: "up_to_date", commit };
  // Nothing was expected on the remote, so the lease is not stale: commits from elsewhere are on the branch.
  const isFirst = expected === null && there.kind === "known" && there.commit !== null;
  if (isFirst && !(await isOurs(at, there.commit, commit)))
    return { kind: "refused", refusal: { ...refusal, cause: "non_fast_forward" } };
  return { kind: "refused", refusal };
}

/** Puts a branch of the push remote back to `to`, or deletes it (null), only while it is at `from`. Null: done. */
export async function undoPush(
  at: RepositoryContext,
  configured: string | null,
  { branch, from, to }: Parameters<Asking["undoPush"]>[0],
): Promise<PushRefusal | null> {
  const ref = `refs/heads/${branch}`;
  const valid = await at.git.result({ args: ["check-ref-format", ref] });
  if (valid.code !== 0 || !isObjectId(from) || (to !== null && !isObjectId(to)))
    throw usageError(`${JSON.stringify(branch)} at ${from} is not a pushed branch`);
  const remote = await findRemote(at, configured, "push");
  if (remote === null) return NO_REMOTE;
  return (await pushRef(at, remote, { ref, expected: from, source: to ?? "" })).refusal;
}

/** Pushes `source` to a ref of the remote only while the ref is at `expected`. `flag`: of git's report about the ref. */
async function pushRef(
  at: RepositoryContext,
  remote: Remote,
  { ref, expected, source }: { readonly ref: string; readonly expected: string | null; readonly source: string },
): Promise<{ readonly flag: string | undefined; readonly refusal: PushRefusal | null }> {
  const lease = `--force-with-lease=${ref}:${expected ?? ""}`;
  const options = ["--porcelain", "--no-follow-tags", "--recurse-submodules=no", lease];
  // A commit graph can name other parents than the commits do. The push would send those too, although they were not
  // searched for secrets.
  const args = ["-c", "core.commitGraph=false", "push", ...options, "--", remote.name, `${source}:${ref}`];
  const { kind, code, stdout, stderr, failedHook } = await runUserGit(at, args);
  const report = parsePushReport(stdout.toString("utf8"), ref);
  const isDone = kind === "exited" && code === 0 && report !== undefined && report.flag !== "!";
  const refused = { report, failedHook, stderr, timedOut: kind === "timed_out" };
  return { flag: report?.flag, refusal: isDone ? null : classifyRemoteFailure(refused) };
}

/** A commit that is absent from this repository cannot be ours. */
async function isOurs(at: BranchContext, there: string, commit: string): Promise<boolean> {
  return isAncestor(at, { ancestor: there, of: commit }).catch(() => false);
}

/**
 * Reports what a push of the branch would publish and the user must see first. Reads every commit that the remote
 * lacks: the commit object with all headers and its message, new file names and added lines. Lines that a later commit
 * removes again are included. For a merge it reads the lines that none of its parents has. A file that git considers
 * binary is read as text. Content that is too large or unreadable is listed in `unsearched`. A new file that is kept out of
 * captures counts as a secret, whatever it contains.
 *
 * The agent can write the repository's configuration. So commit objects are read as bytes, and patches come from a
 * plumbing command.
 */
export async function inspectPush(
  at: BranchContext,
  params: { readonly configured: string | null; readonly issue: number | null },
): Promise<PushInspection> {
  const tip = await requireTip(at);
  // Remote-tracking refs in this repository are not reliable, because an agent can write them.
  const published = await listRemoteTips(at, params.configured);
  const excluded = linesOf(published.map((commit) => `^${commit}`));
  await learnKeptOut(at);
  const reader = createReader({
    tip,
    known: ownSecrets(),
    issue: params.issue,
    isKeptOut: createKeptOutCheck(at.worktree),
    copies: copiedBlobs(),
  });
  const list = await readSome(at, [...TRUE_HISTORY, "rev-list", "--ignore-missing", "--stdin", tip], excluded);
  const ids = list.bytes.subarray(0, list.bytes.lastIndexOf(0x0a) + 1);
  const count = ids.length / (tip.length + 1);
  const objects = await readSome(at, [...TRUE_HISTORY, "cat-file", "--batch"], ids);
  let read = 0;
  for (const { id, type, bytes } of batchObjects(objects.bytes)) {
    if (type !== "commit") break;
    reader.commit(id, bytes);
    read += 1;
  }
  if (list.isCut || read < count) reader.skippedRest("commits");
  const isCut = await readPatches(at, ids, reader);
  if (isCut || reader.patched() < count) reader.skippedRest("changes");
  return reader.end();
}

/** The user's checkout may have other content by now than the copies with which the agents worked. */
async function learnKeptOut({ worktree }: BranchContext): Promise<void> {
  for (const path of readKeptOut(worktree)) await learnCopy(worktree.root, pathBytes(path).toString("utf8"));
}

const MAX_BYTES = 64 * 1024 * 1024;
const LONGEST_LINE = 4 * 1024 * 1024;
const MOST = 100;
const SHOWN = 200;

/** A commit graph can name other parents than the commits do. */
const TRUE_HISTORY = ["--no-replace-objects", "-c", "core.commitGraph=false"];
/** Grafts name other parents too, and no option disables them. */
const NO_GRAFTS = { GIT_GRAFT_FILE: devNull };

/**
 * `diff-tree` reads no log.* configuration and little of diff.*. Each setting that could change the patch is still set
 * here.
 */
const PATCHES = [
  ...TRUE_HISTORY,
  "-c",
  "core.quotePath=false",
  "-c",
  "i18n.logOutputEncoding=UTF-8",
  "diff-tree",
  "--stdin",
  "--root",
  "--always",
  "--no-color",
  "--no-ext-diff",
  "--no-textconv",
  "--no-renames",
  "--no-relative",
  "--ignore-submodules=none",
  "--submodule=short",
  // One patch against each parent, each with its own header.
  "--diff-merges=separate",
  "--patch",
  "--text",
  "--unified=0",
  "--full-index",
  "--inter-hunk-context=0",
  "--src-prefix=a/",
  "--dst-prefix=b/",
  "--format=commit %H %P",
];

/** The output of git, up to MAX_BYTES. */
async function readSome(
  at: BranchContext,
  args: readonly string[],
  input: Uint8Array,
): Promise<{ readonly bytes: Buffer; readonly isCut: boolean }> {
  const done = await at.git.result({ args, env: NO_GRAFTS, input, maxOutputBytes: MAX_BYTES });
  const isCut = done.kind === "overflowed";
  if (!isCut && done.code !== 0) throw gitError(args, done);
  return { bytes: done.stdout, isCut };
}

/** Returns true if the patches are longer than MAX_BYTES; then the rest is not read. */
async function readPatches(at: BranchContext, ids: Buffer, reader: Reader): Promise<boolean> {
  const running = at.git.start({ args: PATCHES, env: NO_GRAFTS });
  running.stdin.end(ids);
  let size = 0;
  let rest: Buffer = Buffer.alloc(0);
  let isLong = false;
  const read = (line: Buffer): void => {
    reader.line(line.toString("utf8"));
    if (isLong) reader.skippedLine();
    isLong = false;
  };
  for await (const chunk of running.stdout) {
    if (!Buffer.isBuffer(chunk)) continue;
    size += chunk.length;
    rest = Buffer.concat([rest, chunk]);
    for (let end = rest.indexOf(0x0a); end !== -1; end = rest.indexOf(0x0a)) {
      read(rest.subarray(0, end));
      rest = rest.subarray(end + 1);
    }
    if (rest.length > LONGEST_LINE) {
      rest = rest.subarray(0, LONGEST_LINE);
      isLong = true;
    }
    if (size > MAX_BYTES) break;
  }
  read(rest);
  const isCut = size > MAX_BYTES;
  if (isCut) running.kill();
  const exit = await running.exit;
  if (!isCut && exit.code !== 0) throw gitError(PATCHES, exit);
  return isCut;
}

interface Reader {
  /** Reads a commit object. */
  commit(id: string, bytes: Buffer): void;
  /** Reads the next line of the patches. */
  line(line: string): void;
  /** Reports that the last line was truncated. */
  skippedLine(): void;
  /** Reports that the rest is not read. */
  skippedRest(what: "commits" | "changes"): void;
  /** Number of commits whose patches were read. */
  patched(): number;
  end(): PushInspection;
}

/**
 * Reads commits, then patches without context. Lines of a hunk are counted, because an added line may look like a
 * header.
 */
function createReader(params: {
  readonly tip: string;
  readonly known: readonly KnownSecret[];
  readonly issue: number | null;
  readonly isKeptOut: (path: RawPath) => boolean;
  /** Paths of the user's copied files by blob id. */
  readonly copies: ReadonlyMap<string, string>;
}): Reader {
  const { tip, known, issue } = params;
  const secrets: PushedSecret[] = [];
  const references: { readonly commit: string; readonly text: string }[] = [];
  const unsearched: PushedSecret[] = [];
  const patched = new Set<string>();
  let commit = tip;
  let parents = 0;
  /** The parent of the commit that the current patch compares with, counted from 1. */
  let patch = 0;
  /** What the patches of a merge add, by path, line and text, and in how many patches it occurs. */
  let merged = new Map<string, { count: number; patch: number }>();
  let path = "commit message";
  /** The path as git prints it. */
  let quoted = "";
  let removed = 0;
  let added = 0;
  let number = 0;
  let last = 0;
  let isRemoved = false;
  const search = (text: string, isNew: (secret: FoundSecret) => boolean): void => {
    for (const secret of findSecrets(text, known)) {
      if (!isRefused(text, secret) || !isNew(secret)) continue;
      report(secret.kind);
    }
  };
  const report = (kind: string): void => {
    if (secrets.length < MOST) secrets.push({ commit, path, line: number, kind });
  };
  const searchPatch = (text: string): void =>
    search(text, ({ start, end }) => parents < 2 || isInAll(`${path}\n${text.slice(start, end)}`));
  const refer = (text: string): boolean => {
    if (!hasOutsideEffect(text, issue)) return false;
    const shown = maskSecrets(text, known).replaceAll(/\s+/g, " ").trim().slice(0, SHOWN);
    if (references.length < MOST) references.push({ commit, text: shown });
    return true;
  };
  const isInAll = (key: string): boolean => {
    const before = merged.get(key) ?? { count: 0, patch: 0 };
    if (before.patch === patch) return false;
    merged.set(key, { count: before.count + 1, patch });
    return before.count + 1 === parents;
  };
  const skip = (what: string): void => {
    if (unsearched.length < MOST) unsearched.push({ commit, path, line: last, kind: `not searched: ${what}` });
  };
  const isKeptOut = (): boolean => params.isKeptOut(parsePath(quoted) ?? quoted);
  const locate = (name: string, line: number): void => {
    path = name;
    number = line;
    last = line;
  };
  return {
    commit(id, bytes) {
      commit = id;
      const { texts, isKnown } = decode(bytes);
      // Most lines are the same in every encoding, so a finding counts once.
      const seen = new Set<string>();
      const isFirst = (key: string): boolean => !seen.has(key) && seen.add(key).has(key);
      const referred = new Set<number>();
      for (const text of texts) {
        const [headers = "", ...paragraphs] = text.split("\n\n");
        for (const [index, line] of headers.split("\n").entries()) {
          const role = /^(?:author|committer) /.exec(line)?.[0];
          if (role === undefined) locate("commit header", index + 1);
          else locate(role === "author " ? "commit author" : "committer", 1);
          search(line, ({ kind }) => isFirst(`${path}:${number} ${kind}`));
        }
        const message = paragraphs.join("\n\n");
        for (const [index, line] of message.split("\n").entries()) {
          locate("commit message", index + 1);
          search(line, ({ kind }) => isFirst(`${path}:${number} ${kind}`));
          if (!referred.has(index) && refer(line)) referred.add(index);
        }
        // The closing word and the issue can be on different lines.
        if (referred.size === 0 && refer(message)) referred.add(0);
      }
      locate("commit message", 1);
      if (!isKnown) skip("a commit in an encoding that cannot be read");
      else if (bytes.includes(0)) skip("a commit that contains a NUL byte");
    },
    line(line) {
      last = number;
      isRemoved = removed > 0 && line.startsWith("-");
      if (isRemoved) removed -= 1;
      else if (added > 0 && line.startsWith("+")) {
        added -= 1;
        const before = secrets.length;
        searchPatch(line.slice(1));
        // Text in UTF-16.
        if (line.includes("\0") && secrets.length === before) searchPatch(line.slice(1).replaceAll("\0", ""));
        number += 1;
      } else if (line.startsWith("@@ ")) {
        const [, before = "1", first = "0", after = "1"] = /^@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line) ?? [];
        removed = Number(before);
        added = Number(after);
        number = Number(first);
      } else if (line.startsWith("diff --git ")) {
        // Both names are equal.
        const names = line.slice("diff --git ".length);
        const second = names.slice((names.length + 1) / 2);
        quoted = second.replace(/^("?)b\//, "$1");
        locate(second.replaceAll(/^"?b\/|"$/g, ""), 0);
      } else if (line.startsWith("new file mode ")) {
        const name = path;
        path = maskSecrets(name, known);
        searchPatch(name);
        if (isKeptOut() && (parents < 2 || isInAll(`${name}\n`)))
          report(line.endsWith(" 120000") ? "link of workspace.setup" : "file of workspace.copy");
      } else if (line.startsWith("index ")) {
        const copied = params.copies.get(/\.\.([0-9a-f]+)/.exec(line)?.[1] ?? "");
        if (copied !== undefined && !isKeptOut() && (parents < 2 || isInAll(`${path}\n`)))
          report(`same content as ${copied}, a file of workspace.copy`);
      } else if (line.startsWith("+++ ")) path = maskSecrets(path, known);
      else if (line.startsWith("commit ")) {
        const [id = "", ...of] = line.slice("commit ".length).trim().split(" ");
        if (!patched.has(id)) {
          merged = new Map();
          patch = 0;
        }
        patched.add(id);
        patch += 1;
        commit = id;
        parents = of.length;
      }
    },
    skippedLine() {
      if (!isRemoved) skip("a line of more than 4 MB");
    },
    skippedRest: (what) => skip(`all that follows the first 64 MB of ${what}`),
    patched: () => patched.size,
    end: () => ({ secrets, unsearched, references }),
  };
}

/**
 * The commit as UTF-8, as single bytes, and in each encoding that it names. `isKnown` means that ASCII characters are
 * single bytes in all of them.
 */
function decode(bytes: Buffer): { readonly texts: ReadonlySet<string>; readonly isKnown: boolean } {
  const single = bytes.toString("latin1");
  const texts = new Set([bytes.toString("utf8"), single]);
  const [headers = ""] = single.split("\n\n", 1);
  let isKnown = true;
  for (const [, name] of headers.matchAll(/^encoding (.*)$/gm)) {
    try {
      const decoder = new TextDecoder(name);
      texts.add(decoder.decode(bytes));
      if (decoder.encoding.startsWith("utf-16")) isKnown = false;
    } catch {
      isKnown = false;
    }
  }
  return { texts, isKnown };
}

/**
 * A word such as `password` before a value proves little, so only a value that looks random counts there. Placeholders
 * from documentation do not count.
 */
/** Whether a push stops at this secret. `text` is one line. */
export function isRefused(text: string, { start, end, kind, isSure }: FoundSecret): boolean {
  const value = text.slice(start, end);
  if (kind !== "private key" && PLACEHOLDER.test(value)) return false;
  if (isSure) return true;
  if (kind === "password in a URL")
    return !/@(?:localhost|127\.|\[::1\]|example\.|[a-z.-]*\.(?:example|test|invalid)\b)/.test(text.slice(end));
  return (
    kind === "assigned secret" && value.length >= 20 && /[a-z]/.test(value) && /[A-Z]/.test(value) && /\d/.test(value)
  );
}

const PLACEHOLDER = /example|placeholder|dummy|changeme|your[_-]|x{6,}|\.{3}|1234567890abcdef|0{10,}/i;

import { hasOutsideEffect } from "../../core/defuse.ts";
import { findSecrets, maskSecrets, secretValues, type FoundSecret, type KnownSecret } from "../../core/mask.ts";
import type { PushedSecret, PushInspection } from "../../ports/branch.ts";
import { gitFailure } from "../git/git-command.ts";
import { publishedTips } from "./ask-remote.ts";
import { requireTip, type BranchPlace } from "./branch-place.ts";

/**
 * What a push of the branch would publish that the user must see first. Reads lines, file names, messages and people of every commit that the remote to push
 * to does not have, also where a later commit removes the line again. Of a merge, what none of its parents has. A file that git calls binary is read as text.
 * What is too large to be searched is named in `unsearched`.
 */
export async function inspectPush(
  at: BranchPlace,
  params: { readonly configured: string | null; readonly issue: number | null },
): Promise<PushInspection> {
  const tip = await requireTip(at);
  // Refs of remotes in this repository say nothing for certain: an agent can write them.
  const published = await publishedTips(at, params.configured);
  const args = [...LOG, "--ignore-missing", "--stdin", tip];
  const running = at.git.start({ args });
  running.stdin.end(published.map((commit) => `^${commit}\n`).join(""));
  const reader = createPatchReader(secretValues(process.env), params.issue);
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
  const cut = size > MAX_BYTES;
  if (cut) {
    reader.skippedRest();
    running.kill();
  }
  const exit = await running.exit;
  if (!cut && exit.code !== 0) throw gitFailure(args, exit);
  return reader.end();
}

const MAX_BYTES = 64 * 1024 * 1024;
const LONGEST_LINE = 4 * 1024 * 1024;
const MOST = 100;
const SHOWN = 200;
const LOG = [
  "--no-replace-objects",
  "-c",
  "core.quotePath=false",
  "log",
  "--no-color",
  "--no-ext-diff",
  "--no-textconv",
  "--no-renames",
  // Against each parent, under a header of its own.
  "--diff-merges=separate",
  "--patch",
  "--text",
  "--unified=0",
  "--inter-hunk-context=0",
  "--src-prefix=a/",
  "--dst-prefix=b/",
  // The message is indented, so that no line of it looks like anything else.
  "--format=commit %H %P%nauthor %an <%ae>%ncommitter %cn <%ce>%n%w(0,4,4)%B",
];

/** Reads patches without context. Lines of a hunk are counted: an added line may look like a header. */
function createPatchReader(
  known: readonly KnownSecret[],
  issue: number | null,
): {
  line(line: string): void;
  /** The line that was read last is not whole. */
  skippedLine(): void;
  /** What follows is not read. */
  skippedRest(): void;
  end(): PushInspection;
} {
  const secrets: PushedSecret[] = [];
  const references: { readonly commit: string; readonly text: string }[] = [];
  const unsearched: PushedSecret[] = [];
  let commit = "";
  let parents = 0;
  /** The patch against which parent of the commit this is, counted from 1. */
  let patch = 0;
  /** What patches of a merge add, by place and text: in how many of them it was seen. */
  let merged = new Map<string, { count: number; patch: number }>();
  let path = "";
  let removed = 0;
  let added = 0;
  let number = 0;
  let last = 0;
  let isRemoved = false;
  const look = (text: string, inPatch: boolean): void => {
    for (const secret of findSecrets(text, known)) {
      if (!isRefused(text, secret)) continue;
      if (inPatch && parents > 1 && !isInAll(`${path}\n${text.slice(secret.start, secret.end)}`)) continue;
      if (secrets.length < MOST) secrets.push({ commit, path, line: number, kind: secret.kind });
    }
  };
  const refer = (text: string): void => {
    if (references.length >= MOST || !hasOutsideEffect(text, issue)) return;
    references.push({ commit, text: maskSecrets(text, known).trim().slice(0, SHOWN) });
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
  const place = (name: string, line: number): void => {
    path = name;
    number = line;
  };
  return {
    line(line) {
      last = number;
      isRemoved = removed > 0 && line.startsWith("-");
      if (isRemoved) removed -= 1;
      else if (added > 0 && line.startsWith("+")) {
        added -= 1;
        look(line.slice(1), true);
        number += 1;
      } else if (line.startsWith("@@ ")) {
        const [, before = "1", first = "0", after = "1"] = /^@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line) ?? [];
        removed = Number(before);
        added = Number(after);
        number = Number(first);
      } else if (line.startsWith("diff --git ")) {
        // Both names are the same.
        const names = line.slice("diff --git ".length);
        place(names.slice((names.length + 1) / 2).replaceAll(/^"?b\/|"$/g, ""), 0);
      } else if (line.startsWith("new file mode ")) {
        const name = path;
        path = maskSecrets(name, known);
        look(name, true);
      } else if (line.startsWith("+++ ")) path = maskSecrets(path, known);
      else if (line.startsWith("commit ")) {
        const [id = "", ...of] = line.slice("commit ".length).trim().split(" ");
        if (id !== commit) merged = new Map();
        patch = id === commit ? patch + 1 : 1;
        commit = id;
        parents = of.length;
      } else if (line.startsWith("author ") || line.startsWith("committer ")) {
        place(line.startsWith("author ") ? "commit author" : "committer", 1);
        if (patch === 1) look(line, false);
        place("commit message", 1);
      } else if (line.startsWith("    ")) {
        if (patch === 1) {
          look(line.slice(4), false);
          refer(line.slice(4));
        }
        number += 1;
      }
    },
    skippedLine() {
      if (!isRemoved) skip("a line of more than 4 MB");
    },
    skippedRest: () => skip("all that follows the first 64 MB of changes"),
    end: () => ({ secrets, unsearched, references }),
  };
}

/** A word such as `password` before a value says little: only what looks random counts there. Examples in documentation do not. */
function isRefused(text: string, { start, end, kind, isSure }: FoundSecret): boolean {
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

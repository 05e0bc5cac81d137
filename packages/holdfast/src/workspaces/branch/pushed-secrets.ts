import { findSecrets, secretValues, type FoundSecret, type KnownSecret } from "../../core/mask.ts";
import type { PushedSecret } from "../../ports/branch.ts";
import { gitFailure } from "../git/git-command.ts";
import { requireTip, type BranchPlace } from "./branch-place.ts";

/**
 * Secrets in lines that a push of the branch would publish: of every commit that no remote is known to have, also where a later commit takes the line
 * away again. A file that git calls binary is read as text. What follows `MAX_BYTES` of patches is not read; `cut` says so.
 */
export async function pushedSecrets(
  at: BranchPlace,
): Promise<{ readonly found: readonly PushedSecret[]; readonly cut: boolean }> {
  const tip = await requireTip(at);
  const args = [...LOG, tip, "--not", "--remotes"];
  const running = at.git.start({ args });
  running.stdin.end();
  const reader = createPatchReader(secretValues(process.env));
  let size = 0;
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of running.stdout) {
    if (!Buffer.isBuffer(chunk)) continue;
    size += chunk.length;
    rest = Buffer.concat([rest, chunk]);
    for (let end = rest.indexOf(0x0a); end !== -1; end = rest.indexOf(0x0a)) {
      reader.line(rest.subarray(0, end).toString("utf8"));
      rest = rest.subarray(end + 1);
    }
    if (rest.length > LONGEST_LINE) rest = rest.subarray(0, LONGEST_LINE);
    if (size > MAX_BYTES) break;
  }
  reader.line(rest.toString("utf8"));
  const cut = size > MAX_BYTES;
  if (cut) running.kill();
  const exit = await running.exit;
  if (!cut && exit.code !== 0) throw gitFailure(args, exit);
  return { found: reader.found(), cut };
}

const MAX_BYTES = 64 * 1024 * 1024;
const LONGEST_LINE = 4 * 1024 * 1024;
const MOST = 100;
const LOG = [
  "-c",
  "core.quotePath=false",
  "log",
  "--no-color",
  "--no-ext-diff",
  "--no-textconv",
  "--no-renames",
  "--patch",
  "--text",
  "--unified=0",
  // The message is indented, so that no line of it looks like anything else.
  "--format=commit %H%n%w(0,4,4)%B",
];

/** Reads patches without context. Lines of a hunk are counted: an added line may look like a header. */
function createPatchReader(known: readonly KnownSecret[]): {
  line(line: string): void;
  found(): readonly PushedSecret[];
} {
  const found: PushedSecret[] = [];
  let commit = "";
  let path = "";
  let removed = 0;
  let added = 0;
  let number = 0;
  const look = (text: string): void => {
    for (const secret of findSecrets(text, known))
      if (found.length < MOST && isRefused(text, secret)) found.push({ commit, path, line: number, kind: secret.kind });
  };
  return {
    line(line) {
      if (removed > 0 && line.startsWith("-")) removed -= 1;
      else if (added > 0 && line.startsWith("+")) {
        added -= 1;
        look(line.slice(1));
        number += 1;
      } else if (line.startsWith("@@ ")) {
        const [, before = "1", first = "0", after = "1"] = /^@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line) ?? [];
        removed = Number(before);
        added = Number(after);
        number = Number(first);
      } else if (line.startsWith("+++ "))
        path = line
          .slice(4)
          .replace(/^"?b\//, "")
          .replace(/["\t]+$/, "");
      else if (line.startsWith("commit ")) {
        commit = line.slice("commit ".length).trim();
        path = "commit message";
        number = 1;
      } else if (line.startsWith("    ")) {
        look(line.slice(4));
        number += 1;
      }
    },
    found: () => found,
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

import type { Refusal } from "../../ports/branch.ts";

/** What one line of `git push --porcelain` says about the ref. */
export interface RefReport {
  /** git's one-letter flag: " ", "+", "*", "-", "=", "!". */
  readonly flag: string;
  readonly summary: string;
}

export function parseReport(stdout: string, ref: string): RefReport | undefined {
  for (const line of stdout.split("\n")) {
    const [flag = "", names = "", summary = ""] = line.split("\t");
    if (flag.length === 1 && names.endsWith(`:${ref}`)) return { flag, summary };
  }
  return undefined;
}

/**
 * Why a push or fetch was refused. "failed to push some refs" and "Could not read from remote repository" are printed for almost every
 * refusal and say nothing: only what git reports about the ref, the hook that failed, and specific messages count.
 */
export function classifyRefusal(facts: {
  readonly report: RefReport | undefined;
  readonly failedHook: string | null;
  readonly stderr: string;
  readonly timedOut: boolean;
}): Refusal {
  const { report, stderr } = facts;
  const message = messageOf(stderr, report?.summary);
  if (report?.flag === "!") return { cause: causeOfRef(report.summary, stderr), message };
  if (facts.timedOut) return { cause: "network", message: `no answer in time; ${message}` };
  if (facts.failedHook !== null)
    return { cause: "local_hook", message: `the ${facts.failedHook} hook refused: ${message}` };
  return { cause: MESSAGES.find(([, pattern]) => pattern.test(stderr))?.[0] ?? "other", message };
}

function causeOfRef(summary: string, stderr: string): Refusal["cause"] {
  const reason = /\(([^()]*(?:\([^()]*\)[^()]*)*)\)$/.exec(summary)?.[1] ?? "";
  const byRemote = summary.startsWith("[remote rejected]");
  if (SECRET.test(stderr)) return "secret";
  if (/\bGH0(?:06|13)\b|protected branch|not allowed to (?:force )?push/i.test(`${reason}\n${stderr}`))
    return "protected";
  if (byRemote && /^(?:non-fast-forward|deletion prohibited)$/.test(reason)) return "protected";
  // A hook that asks a service says so when the service does not answer: it has judged nothing.
  if (/hook declined/.test(reason)) return TEMPORARY.test(stderr) ? "remote" : "hook";
  if (/^stale info$|^remote ref updated since checkout$/.test(reason)) return "stale_lease";
  // Another push arrived between the remote's offer and ours, or the ref is locked for the moment: the next try tells these apart.
  if (byRemote && /failed to update ref|cannot lock ref/.test(reason))
    return /but expected|reference already exists/.test(`${reason}\n${stderr}`) ? "stale_lease" : "remote";
  if (byRemote && reason === "fetch first") return "stale_lease";
  if (/^(?:non-fast-forward|fetch first|needs force)$/.test(reason)) return "non_fast_forward";
  if (/permission denied/i.test(reason)) return "auth";
  if (byRemote && (/^(?:failure|unpacker error|.*internal server error.*)$/i.test(reason) || TEMPORARY.test(reason)))
    return "remote";
  return "other";
}

/** Push protection of GitHub (GH013, GH009) and secret push protection of GitLab. */
const SECRET =
  /push protection|cannot contain secrets|\bGH009\b|secrets? (?:was |were )?detected|PUSH BLOCKED: Secret/i;

const TEMPORARY =
  /temporar(?:y|ily)|try again|timed? ?out|time-out|unavailable|internal (?:server |api )?error|bad gateway|\b50[0234]\b|too many requests|no space left|could not connect|connection (?:refused|reset)|not accessible/i;

/** In this order: an ssh that was not let in also says that the remote end hung up. */
const MESSAGES: readonly (readonly [Refusal["cause"], RegExp])[] = [
  [
    "auth",
    /permission denied \(|permission to .* denied|authentication failed|could not read (?:username|password)|invalid (?:username|credentials)|host key verification failed|returned error: 40[13]|access denied|too many authentication failures/i,
  ],
  [
    "missing_remote",
    /does not appear to be a git repository|repository .*not found|repository '.*' does not exist|no such remote|returned error: 404|not a git repository/i,
  ],
  [
    "network",
    /could not resolve (?:host|proxy)|name or service not known|temporary failure in name resolution|failed to connect|couldn't connect|connection (?:refused|timed out|reset|closed)|network is unreachable|no route to host|operation timed out|timeout|returned error: (?:429|5\d\d)|remote end hung up|unexpected disconnect|early eof|rpc failed|ssl|tls|gnutls/i,
  ],
];

/** What a person needs: the remote's own words and git's reason, without advice and without what is always printed. */
function messageOf(stderr: string, summary: string | undefined): string {
  const lines = stderr
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !NOISE.test(line));
  const text = [...(summary === undefined ? [] : [summary]), ...lines].join("\n");
  return text === "" ? "git gave no reason" : text.slice(0, MAX_MESSAGE);
}

const MAX_MESSAGE = 4000;
const NOISE =
  /^(?:hint:|error: failed to push some refs|fatal: Could not read from remote repository|Please make sure you have the correct access|and the repository exists|Everything up-to-date)/;

/**
 * Judges whether a run can start: one table of mistakes, each with its message, error code and hint. Pure:
 * observe-start.ts gathers the facts. `run`, `run --dry-run` and the library use the same table.
 */
import { type AgentProbe, splitAgent } from "@holdfast/core/agent";
import type { PushRefusal, Remote } from "@holdfast/core/branch";
import type { Work } from "@holdfast/core/run";
import { byteText } from "@holdfast/core/store-size";
import type { CheckoutFacts } from "@holdfast/core/workspace";
import { type ErrorCode, HoldfastError } from "@holdfast/platform/error";
import { cloudFolder } from "@holdfast/platform/file-system";
import type { ForgeUse } from "@holdfast/workflows/built-in";
import type { AgentRole } from "@holdfast/workflows/plugin";

/** What is known before a run, a branch, a worktree or a store is created. */
export interface StartFacts {
  readonly work: Work;
  /** What the workflow needs a forge for if the work is a task. */
  readonly forgeUse: ForgeUse;
  /** The id that the run would get. */
  readonly run: string;
  /** The user asked for a new run although the work may be done. */
  readonly again: boolean;
  /** null: there is no repository, or the run works without files. */
  readonly repository: RepositoryFacts | null;
  /** The workflow edits files, so it needs a repository. */
  readonly needsFiles: boolean;
  /** null: there is none. */
  readonly forge: { readonly name: string; readonly location: string } | null;
  /** The forge's refusal: no login, a missing right, no answer. */
  readonly forgeError: HoldfastError | null;
  /** null: the work is not an issue, or the forge could not be asked. */
  readonly issue: "absent" | "open" | "closed" | null;
  readonly agents: readonly AgentFacts[];
  /** No agent is named although the workflow needs one; null: one is. */
  readonly unnamedAgent: { readonly ready: readonly string[]; readonly hint: string } | null;
  readonly commands: readonly CommandFacts[];
  /** The agent of each role. */
  readonly roles: readonly AgentRole[];
  /** Folders in which the run writes. */
  readonly folders: readonly FolderFacts[];
}

export interface RepositoryFacts {
  /** null: a bare repository. */
  readonly checkout: CheckoutFacts | null;
  readonly remote: Pick<Remote, "name" | "url"> | null;
  /** Host of the remote; null: the remote is a directory, or there is none. */
  readonly host: string | null;
  /** Why the remote could not be fetched; null: it was, or there is none. */
  readonly unreachable: PushRefusal | null;
  readonly base: BaseFacts;
  /** The branch that the run would get, and who has it already. */
  readonly branch: {
    readonly name: string;
    readonly taken: null | { readonly worktree: string | null };
    /** A branch such as `holdfast`, beside which git cannot have a branch `holdfast/…`; null: there is none. */
    readonly blockedBy: string | null;
  };
  /** A folder in the place of the run's worktree; null: the place is free. */
  readonly occupied: string | null;
}

export type BaseFacts =
  | { readonly kind: "found"; readonly branch: string | null; readonly commit: string; readonly hasHead: boolean }
  /** The run starts from HEAD. */
  | { readonly kind: "head" }
  /** A named branch that does not exist. */
  | { readonly kind: "missing"; readonly branch: string }
  /** There is no commit to start from. */
  | { readonly kind: "none" };

export interface AgentFacts {
  /** `provider:model`. */
  readonly name: string;
  readonly provider: string;
  readonly probe: AgentProbe;
  /** null: Holdfast needs no certain version of it. */
  readonly version: { readonly needs: string; readonly verdict: "ok" | "too_old" | "unknown" } | null;
  /** Used only if another agent fails. */
  readonly fallback: boolean;
}

export interface CommandFacts {
  /** Such as "the gate" or "the agent". */
  readonly role: string;
  readonly line: string;
  readonly program: string;
  /** Where the program was looked for: on this machine, or in the files of the base, which the run may change. */
  readonly where: "system" | "base";
  readonly isAgent: boolean;
  /** The file exists in the current directory, without being committed. */
  readonly here: string | null;
}

export interface FolderFacts {
  readonly path: string;
  /** Why it cannot be written; null: it can. */
  readonly problem: string | null;
  /** null: it cannot be measured. */
  readonly freeBytes: number | null;
}

export interface PreflightFinding {
  readonly check: string;
  /** A notice does not prevent the start. */
  readonly level: "error" | "notice";
  readonly code: ErrorCode | null;
  readonly message: string;
  readonly hint: string | null;
}

type Said = { readonly message: string; readonly hint: string | null; readonly code?: ErrorCode };

interface PreflightRow {
  readonly check: string;
  /** For docs/errors.md. */
  readonly mistake: string;
  readonly level: PreflightFinding["level"];
  /** The code of the error; null for a notice. A finding may carry its own: a forge reports why it refuses. */
  readonly code: ErrorCode | null;
  /** What else makes an error a notice: a dry run calls no agent, and --wait waits for space. */
  readonly noticeIn?: "dry-run" | "wait";
  readonly judge: (facts: StartFacts) => readonly Said[];
}

/** Below this a run cannot save. The same limit ends the wait of a run for space. */
const NEEDED_BYTES = 8 * 1024 ** 2;
/** Below this the next checkouts and builds probably fail. */
const LOW_BYTES = 1024 ** 3;

/** The same verdict for the preflight and for `doctor`. */
export function judgeSpace(free: number): "full" | "low" | "enough" {
  if (free < NEEDED_BYTES) return "full";
  return free < LOW_BYTES ? "low" : "enough";
}

export const CLOUD_FIX =
  "Move the repository elsewhere: such a service puts back files that git or a restore removes, and copies the store while it is written.";

/** Every mistake that is found before anything exists. docs/errors.md lists the same rows. */
export const PREFLIGHT: readonly PreflightRow[] = [
  {
    check: "repository",
    mistake: "the directory is not in a git repository",
    level: "error",
    code: "NOT_A_REPOSITORY",
    judge: ({ repository, needsFiles }) =>
      repository === null && needsFiles
        ? [{ message: "A run works on files, and this directory is not in a git repository", hint: NEW_REPOSITORY }]
        : [],
  },
  {
    check: "empty_repository",
    mistake: "the repository has no commit",
    level: "error",
    code: "NEEDS_DECISION",
    judge: ({ repository }) =>
      repository?.base.kind === "none"
        ? [
            {
              message: "The repository has no commit, so there is nothing to start from",
              hint: 'Make the first one: `git add --all && git commit -m "First commit"`.',
            },
          ]
        : [],
  },
  {
    check: "base",
    mistake: "the base branch does not exist",
    level: "error",
    code: "USAGE",
    judge: ({ repository }) =>
      repository?.base.kind === "missing"
        ? [
            repository.remote === null
              ? {
                  message: `There is no branch ${repository.base.branch} to start from`,
                  hint: "Name another one with --base. `git branch` lists them.",
                }
              : {
                  message: `The remote has no branch ${repository.base.branch} to start from`,
                  hint: `Push it first (\`git push ${repository.remote.name} ${repository.base.branch}\`), or name another one with --base.`,
                },
          ]
        : [],
  },
  {
    check: "remote",
    mistake: "the remote cannot be reached",
    level: "error",
    code: "FORGE_FAILED",
    judge: ({ repository, forge }) =>
      repository?.unreachable != null && repository.remote !== null && forge !== null
        ? [
            {
              message: `The remote ${repository.remote.name} (${repository.remote.url}) cannot be reached: ${lastLine(repository.unreachable.message)}`,
              hint: `Check it with \`git ls-remote ${repository.remote.name}\`, or change it with \`git remote set-url ${repository.remote.name} URL\`.`,
              ...(repository.unreachable.cause === "auth" ? { code: "FORGE_DENIED" as const } : {}),
            },
          ]
        : [],
  },
  {
    check: "forge",
    mistake: "an issue is needed, and the remote is missing or on a host that is neither GitHub nor GitLab",
    level: "error",
    code: "NEEDS_DECISION",
    judge: ({ work, forgeUse, forge, forgeError, repository }) => {
      const needs =
        work.kind === "issue" ? `Issue ${work.number} cannot be read` : forgeUse === "required" ? NEEDS_ISSUE : null;
      if (needs === null || forge !== null || forgeError !== null || repository === null) return [];
      const { remote, host } = repository;
      if (remote === null)
        return [
          {
            message: `${needs}: the repository has no remote`,
            hint: 'Add it: `git remote add origin URL`. Or describe the work: `holdfast run --task "..."`.',
          },
        ];
      return [
        {
          message: `${needs}: the remote ${remote.name} (${remote.url}) is on a host that is not known to be GitHub or GitLab`,
          hint: `For GitHub Enterprise: \`holdfast setup --forge github\`${host === null ? "" : `, then \`gh auth login --hostname ${host}\``}. For GitLab: \`holdfast setup --forge gitlab\`. Or describe the work: \`holdfast run --task "..."\`.`,
        },
      ];
    },
  },
  {
    check: "forge_access",
    mistake: "there is no login for the forge, or its token lacks a scope or the right to write",
    level: "error",
    code: "FORGE_DENIED",
    judge: ({ forgeError }) =>
      forgeError === null
        ? []
        : [{ message: forgeError.message, hint: forgeError.hint ?? null, code: forgeError.code }],
  },
  {
    check: "issue",
    mistake: "the issue does not exist",
    level: "error",
    code: "USAGE",
    judge: ({ work, issue, forge }) =>
      work.kind === "issue" && issue === "absent" && forge !== null
        ? [
            {
              message: `There is no issue ${work.number} at ${forge.location}`,
              hint: `Check the number; the forge is ${forge.name}.`,
            },
          ]
        : [],
  },
  {
    check: "closed_issue",
    mistake: "the issue is closed",
    level: "error",
    code: "NEEDS_DECISION",
    judge: ({ work, issue, again }) =>
      work.kind === "issue" && issue === "closed" && !again
        ? [
            {
              message: `Issue ${work.number} is closed`,
              hint: `Work on it all the same: add --again (\`holdfast run ${work.number} --again\`). Or reopen it first.`,
            },
          ]
        : [],
  },
  {
    check: "branch",
    mistake: "the branch of the run exists and belongs to no run",
    level: "error",
    code: "NEEDS_DECISION",
    judge: ({ repository }) => {
      if (repository === null || repository.branch.taken === null) return [];
      const { name, taken } = repository.branch;
      const where = taken.worktree === null ? "" : `, and ${taken.worktree} has it checked out`;
      return [
        {
          message: `The branch ${name} exists already and belongs to no run${where}`,
          hint: `Rename it: \`git branch -m ${name} ${name}-old\`. Or delete it: \`git branch -D ${name}\`.`,
        },
      ];
    },
  },
  {
    check: "branch_name",
    mistake: "a branch has the name of the folder in which branches of runs are, such as `holdfast`",
    level: "error",
    code: "NEEDS_DECISION",
    judge: ({ repository }) => {
      if (repository === null || repository.branch.blockedBy === null) return [];
      const { name, blockedBy } = repository.branch;
      return [
        {
          message: `The branch ${name} cannot be created: there is a branch ${blockedBy}, and git cannot have both`,
          hint: `Rename it: \`git branch -m ${blockedBy} ${blockedBy}-old\`.`,
        },
      ];
    },
  },
  {
    check: "worktree",
    mistake: "there is a folder in the place of the worktree",
    level: "error",
    code: "NEEDS_DECISION",
    judge: ({ repository }) =>
      repository === null || repository.occupied === null
        ? []
        : [
            {
              message: `The worktree would be ${repository.occupied}, which exists and is not empty`,
              hint: `Move it away: \`mv ${quote(repository.occupied)} ${quote(`${repository.occupied}.old`)}\`.`,
            },
          ],
  },
  {
    check: "no_agent",
    mistake: "no agent is configured, and none is ready",
    level: "error",
    code: "NEEDS_DECISION",
    noticeIn: "dry-run",
    judge: ({ unnamedAgent }) =>
      unnamedAgent === null || unnamedAgent.ready.length > 0
        ? []
        : [
            {
              message: "No agent is configured, and none is ready on this machine",
              hint: `${unnamedAgent.hint} Any other program works too: \`--agent command:PROGRAM\`. \`holdfast demo\` needs none.`,
            },
          ],
  },
  {
    check: "several_agents",
    mistake: "no agent is configured, and several are ready",
    level: "error",
    code: "USAGE",
    noticeIn: "dry-run",
    judge: ({ unnamedAgent }) =>
      unnamedAgent === null || unnamedAgent.ready[0] === undefined
        ? []
        : [
            {
              message: `No agent is configured, and several are ready: ${unnamedAgent.ready.join(", ")}`,
              hint: `Choose one for this repository: \`holdfast setup --yes --agent ${unnamedAgent.ready[0]}\`. Or for one run: \`--agent ${unnamedAgent.ready[0]}\`.`,
            },
          ],
  },
  {
    check: "agent_missing",
    mistake: "the agent is not installed",
    level: "error",
    code: "NEEDS_DECISION",
    noticeIn: "dry-run",
    judge: ({ agents }) =>
      agents.flatMap(({ provider, probe, fallback }) => (probe.installed || fallback ? [] : [cannot(provider, probe)])),
  },
  {
    check: "agent_old",
    mistake: "the agent is too old",
    level: "error",
    code: "NEEDS_DECISION",
    noticeIn: "dry-run",
    judge: ({ agents }) => agents.flatMap((agent) => (isTooOld(agent) ? [cannot(agent.provider, agent.probe)] : [])),
  },
  {
    check: "agent_login",
    mistake: "the agent is not logged in, or does not answer",
    level: "error",
    code: "NEEDS_DECISION",
    noticeIn: "dry-run",
    judge: ({ agents }) =>
      agents.flatMap(({ provider, probe, version, fallback }) =>
        // A program whose version cannot be read may work.
        !probe.installed || (version !== null && version.verdict !== "ok") || fallback || probe.problem === null
          ? []
          : [cannot(provider, probe)],
      ),
  },
  {
    check: "agent_command",
    mistake: "the program of a command agent does not exist",
    level: "error",
    code: "NEEDS_DECISION",
    noticeIn: "dry-run",
    judge: ({ commands }) => commands.filter(({ isAgent }) => isAgent).map(commandMissing),
  },
  {
    check: "command",
    mistake: "the program of a gate or a check does not exist",
    level: "error",
    code: "NEEDS_DECISION",
    judge: ({ commands }) =>
      commands.filter(({ isAgent, where }) => !isAgent && where === "system").map(commandMissing),
  },
  {
    check: "not_writable",
    mistake: "a directory in which the run writes is not writable",
    level: "error",
    code: "IO_FAILED",
    judge: ({ folders }) =>
      folders.flatMap(({ path, problem }) =>
        problem === null
          ? []
          : [
              {
                message: `${path} cannot be written: ${problem}`,
                hint: `Look at its owner and permissions: \`ls -ld ${quote(path)}\`. \`workspace.worktrees\` in holdfast.config.yaml moves the worktrees elsewhere.`,
              },
            ],
      ),
  },
  {
    check: "disk_full",
    mistake: "the disk is nearly full",
    level: "error",
    code: "DISK_FULL",
    noticeIn: "wait",
    judge: ({ folders }) => spaceFindings(folders, "full"),
  },
  {
    check: "low_disk",
    mistake: "less than 1 GiB is free",
    level: "notice",
    code: null,
    judge: ({ folders }) => spaceFindings(folders, "low"),
  },
  {
    check: "cloud_folder",
    mistake: "a cloud service syncs the folder",
    level: "notice",
    code: null,
    judge: ({ folders }) =>
      folders
        .flatMap(({ path }) => {
          const cloud = cloudFolder(path);
          return cloud === null ? [] : [{ message: `${cloud} syncs ${path}`, hint: CLOUD_FIX }];
        })
        .slice(0, 1),
  },
  {
    check: "offline",
    mistake: "the remote cannot be reached, and no forge is used",
    level: "notice",
    code: null,
    judge: ({ repository, forge }) =>
      repository?.unreachable != null && repository.remote !== null && forge === null
        ? [
            {
              message: `The remote ${repository.remote.name} cannot be reached (${lastLine(repository.unreachable.message)}): the run starts from what was fetched last`,
              hint: `Check it with \`git ls-remote ${repository.remote.name}\`.`,
            },
          ]
        : [],
  },
  {
    check: "no_forge",
    mistake: "no forge is known, and the work is a task: the run ends with a branch",
    level: "notice",
    code: null,
    judge: ({ work, forgeUse, forge, repository }) => {
      if (work.kind !== "task" || forgeUse !== "optional" || forge !== null || repository === null) return [];
      const { remote } = repository;
      const why =
        remote === null ? "The repository has no remote" : `${remote.url} is not known to be at GitHub or GitLab`;
      return [
        {
          message: `${why}: the run ends with a branch to ${remote === null ? "merge" : "push"}, without a pull request`,
          hint: remote === null ? null : "For a server of your own: `holdfast setup --forge github`.",
        },
      ];
    },
  },
  {
    check: "changes",
    mistake: "uncommitted changes, which the run does not see",
    level: "notice",
    code: null,
    judge: ({ repository }) => {
      const changed = repository?.checkout?.changed ?? [];
      if (changed.length === 0 || repository === null) return [];
      const names = changed.slice(0, 3).join(", ") + (changed.length > 3 ? ", …" : "");
      const count =
        changed.length === 1
          ? "1 file with uncommitted changes is"
          : `${changed.length} files with uncommitted changes are`;
      const push = repository.base.kind === "found" && repository.remote !== null ? "Commit and push" : "Commit";
      return [{ message: `${count} not part of the run: ${names}`, hint: `${push} them first if the run needs them.` }];
    },
  },
  {
    check: "unpushed",
    mistake: "commits of the base branch that are not pushed, which the run does not see",
    level: "notice",
    code: null,
    judge: ({ repository }) => {
      if (repository === null || repository.base.kind !== "found" || repository.remote === null) return [];
      const { base, remote, checkout } = repository;
      if (base.hasHead || checkout?.branch !== `refs/heads/${base.branch ?? ""}`) return [];
      return [
        {
          message: `${base.branch ?? ""} has commits here that ${remote.name} does not have: they are not part of the run`,
          hint: `Push them first if the run needs them: \`git push ${remote.name} ${base.branch ?? ""}\`.`,
        },
      ];
    },
  },
  {
    check: "operation",
    mistake: "an unfinished merge or rebase, which the run does not see",
    level: "notice",
    code: null,
    judge: ({ repository }) => {
      const operation = repository?.checkout?.operation ?? null;
      return operation === null
        ? []
        : [
            {
              message: `A ${operation} is in progress in ${repository?.checkout?.root ?? ""}: the run has its own worktree and does not see it`,
              hint:
                operation === "bisect"
                  ? "End it with `git bisect reset`."
                  : `End it with \`git ${operation} --continue\` or \`git ${operation} --abort\`.`,
            },
          ];
    },
  },
  {
    check: "identity",
    mistake: "git knows no name and email of the user: commits of the run are by Holdfast",
    level: "notice",
    code: null,
    judge: ({ repository }) =>
      repository?.checkout?.hasIdentity === false ? [{ message: NO_IDENTITY, hint: SET_IDENTITY }] : [],
  },
  {
    check: "command_review",
    mistake: "a `command` agent also reviews, and a review must be JSON",
    level: "notice",
    code: null,
    judge: ({ roles }) => {
      const reviewer = roles.find(({ role }) => role === "review")?.agent;
      const hasOtherRole = roles.some(({ role, agent }) => role !== "review" && agent === reviewer);
      if (reviewer === undefined || !hasOtherRole || splitAgent(reviewer).provider !== "command") return [];
      return [
        {
          message: `${reviewer} also reviews, and must then answer with a JSON object (docs/agents.md)`,
          hint: "For a program that does not: `--no-review`, or another reviewer with `--review-model`.",
        },
      ];
    },
  },
  {
    check: "fallback_agent",
    mistake: "an agent of errors.fallback is not ready",
    level: "notice",
    code: null,
    judge: ({ agents }) =>
      agents.flatMap(({ provider, probe, fallback, version }) =>
        fallback && !isTooOld({ version }) && (!probe.installed || probe.problem !== null)
          ? [cannot(provider, probe)]
          : [],
      ),
  },
  {
    check: "agent_version",
    mistake: "the version of the agent cannot be read",
    level: "notice",
    code: null,
    judge: ({ agents }) =>
      agents.flatMap(({ provider, probe, version }) => {
        if (!probe.installed || version?.verdict !== "unknown") return [];
        const reported =
          probe.version === null ? "reports no version" : `reports the version ${JSON.stringify(probe.version)}`;
        const message = `${provider} ${reported}, and Holdfast needs ${version.needs} or newer`;
        return [{ message, hint: `Run \`${provider} --version\` to check it.` }];
      }),
  },
  {
    check: "command_file",
    mistake: "the script of a gate or a check is not in the base",
    level: "notice",
    code: null,
    judge: ({ commands }) => commands.filter(({ isAgent, where }) => !isAgent && where === "base").map(commandMissing),
  },
];

export const NO_IDENTITY =
  "Git knows no user.name and user.email here: commits of runs are by Holdfast <holdfast@localhost>";
export const SET_IDENTITY =
  'Set them: `git config --global user.name "Your Name"` and `git config --global user.email you@example.com`.';
const NEEDS_ISSUE = "This workflow needs an issue";
export const NEW_REPOSITORY = 'Make it one: `git init && git add --all && git commit -m "First commit"`.';

function isTooOld({ version }: Pick<AgentFacts, "version">): boolean {
  return version?.verdict === "too_old";
}

function cannot(provider: string, { problem, hint }: AgentProbe): Said {
  return { message: `The agent ${provider} cannot be used: ${problem ?? "it is not ready"}`, hint };
}

function commandMissing({ role, line, program, where, here, isAgent }: CommandFacts): Said {
  if (where === "system")
    return {
      message: `${role} \`${line}\` cannot run: ${program} ${program.startsWith("/") ? "does not exist" : "is not on PATH"}`,
      hint: `Install it, or name another command. \`command -v ${program}\` shows whether it is found.`,
    };
  const message = `${role} \`${line}\` ${isAgent ? "cannot run" : "fails until it exists"}: ${program} is not in the files that the run starts from`;
  if (here !== null) return { message, hint: `It exists here: commit it, or give its whole path: ${here}.` };
  return { message, hint: "Commands run in the run's worktree: commit the file, or give a whole path." };
}

function spaceFindings(folders: readonly FolderFacts[], wanted: "full" | "low"): readonly Said[] {
  const [tightest] = folders
    .flatMap(({ path, freeBytes }) => (freeBytes === null ? [] : [{ path, free: freeBytes }]))
    .toSorted((one, other) => one.free - other.free);
  if (tightest === undefined || judgeSpace(tightest.free) !== wanted) return [];
  const message = `${byteText(tightest.free)} are free at ${tightest.path}, and a run needs at least ${byteText(NEEDED_BYTES)}`;
  return [{ message, hint: "Free some space. `holdfast gc --dry-run` shows what Holdfast can remove." }];
}

function lastLine(text: string): string {
  return text.trim().split("\n").at(-1)?.trim() ?? "";
}

function quote(path: string): string {
  return /^[\w./+-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}

/** All findings at once, errors first. */
export function judgeStart(
  facts: StartFacts,
  how: { readonly dryRun?: boolean | undefined; readonly wait?: boolean | undefined } = {},
): readonly PreflightFinding[] {
  const isMild = (row: PreflightRow): boolean =>
    (row.noticeIn === "dry-run" && how.dryRun === true) || (row.noticeIn === "wait" && how.wait === true);
  const found = PREFLIGHT.flatMap((row) =>
    row.judge(facts).map(({ message, hint, code }): PreflightFinding => {
      const level = isMild(row) ? "notice" : row.level;
      return { check: row.check, level, code: level === "error" ? (code ?? row.code) : null, message, hint };
    }),
  );
  const isError = ({ level }: PreflightFinding): boolean => level === "error";
  return [...found.filter(isError), ...found.filter((finding) => !isError(finding))];
}

/** The first error, with all other findings as data; null: nothing prevents the start. */
export function preflightError(findings: readonly PreflightFinding[]): HoldfastError | null {
  const [first, ...more] = findings;
  if (first === undefined || first.level !== "error" || first.code === null) return null;
  return new HoldfastError({
    code: first.code,
    message: first.message,
    ...(first.hint === null ? {} : { hint: first.hint }),
    retry: first.code === "DISK_FULL" || first.code === "FORGE_FAILED" ? "later" : "ask",
    data: { check: first.check, more },
  });
}

/** A finding as lines of progress. */
export function noticeLines({ message, hint }: PreflightFinding): readonly string[] {
  return [`Notice: ${message}.`, ...(hint === null ? [] : [hint])];
}

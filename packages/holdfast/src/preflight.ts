/**
 * Judges whether a run can start: one table of mistakes and notices. Pure: observe-start.ts gathers the facts. `run`,
 * `run --dry-run` and the library use the same table.
 */
import { basename, dirname } from "node:path";
import { splitAgent } from "@holdfast/core/agent";
import { HoldfastError, describeList } from "@holdfast/platform/error";
import { cloudFolder } from "@holdfast/platform/file-system";
import { PREFLIGHT_ERRORS } from "./preflight-errors.ts";
import {
  type PreflightFinding,
  type PreflightRow,
  type StartFacts,
  cannot,
  commandMissing,
  isTooOld,
  lastLine,
  spaceFindings,
} from "./preflight-facts.ts";

/** What the user should know although the run can start. */
const NOTICES: readonly PreflightRow[] = [
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
    judge: ({ work, forgeUse, forge, isForgeDeclined, repository }) => {
      if (work.kind !== "task" || forgeUse !== "optional" || forge !== null || repository === null) return [];
      if (isForgeDeclined) return [];
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
    check: "local_forge",
    mistake: "the remote is another checkout on this machine, and the run writes there",
    level: "notice",
    code: null,
    judge: ({ work, forgeUse, forge }) => {
      if (forge?.name !== "local" || (work.kind !== "issue" && forgeUse === "none")) return [];
      const gitDir = dirname(forge.location);
      if (basename(gitDir) !== ".git") return [];
      return [
        {
          message: `The run pushes its branch to ${dirname(gitDir)}, another checkout on this machine, and writes issues and pull requests to ${forge.location}`,
          hint: "To keep the work in this repository: `holdfast setup --yes --forge none`.",
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
      const count =
        changed.length === 1
          ? "1 file with uncommitted changes is"
          : `${changed.length} files with uncommitted changes are`;
      const push = repository.base.kind === "found" && repository.remote !== null ? "Commit and push" : "Commit";
      const names = describeList(changed, 3);
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
    ofMachine: true,
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
    ofMachine: true,
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
    mistake: "the script of a gate or a check is not in the base, or is not executable there",
    level: "notice",
    code: null,
    judge: ({ commands }) => commands.filter(({ isAgent, where }) => !isAgent && where === "base").map(commandMissing),
  },
];

/** Everything that is found before anything exists. docs/errors.md lists the same rows. */
export const PREFLIGHT: readonly PreflightRow[] = [...PREFLIGHT_ERRORS, ...NOTICES];

export const CLOUD_FIX =
  "Move the repository elsewhere: such a service puts back files that git or a restore removes, and copies the store while it is written.";

export const NO_IDENTITY =
  "Git knows no user.name and user.email here: commits of runs are by Holdfast <holdfast@localhost>";
export const SET_IDENTITY =
  'Set them: `git config --global user.name "Your Name"` and `git config --global user.email you@example.com`.';

/** All findings at once, errors first. */
export function judgeStart(
  facts: StartFacts,
  how: { readonly dryRun?: boolean | undefined; readonly wait?: boolean | undefined } = {},
): readonly PreflightFinding[] {
  const isMild = (row: PreflightRow): boolean =>
    (row.noticeIn === "dry-run" && how.dryRun === true) || (row.noticeIn === "wait" && how.wait === true);
  const found = PREFLIGHT.filter((row) => !(facts.forWorkers && row.ofMachine === true)).flatMap((row) =>
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

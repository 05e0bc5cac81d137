/** Mistakes that prevent the start of a run: each with its message, error code and hint. Pure. */
import {
  type PreflightRow,
  type StartFacts,
  cannot,
  commandMissing,
  isTooOld,
  lastLine,
  spaceFindings,
} from "./preflight-facts.ts";

export const PREFLIGHT_ERRORS: readonly PreflightRow[] = [
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
    judge: ({ repository, forge, ...facts }) =>
      repository?.unreachable != null && repository.remote !== null && forge !== null
        ? [
            {
              message: `The remote ${repository.remote.name} (${repository.remote.url}) cannot be reached: ${lastLine(repository.unreachable.message)}`,
              hint: `Check it with \`git ls-remote ${repository.remote.name}\`, or change it with \`git remote set-url ${repository.remote.name} URL\`.${withoutForge(facts)}`,
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
    judge: ({ forgeError, ...facts }) =>
      forgeError === null
        ? []
        : [
            {
              message: forgeError.message,
              hint: `${forgeError.hint ?? ""}${withoutForge(facts)}`.trim() || null,
              code: forgeError.code,
            },
          ],
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
    judge: ({ unnamedAgent, forWorkers }) =>
      unnamedAgent === null || unnamedAgent.ready.length > 0
        ? []
        : [
            {
              message: "No agent is configured, and none is ready on this machine",
              hint: forWorkers
                ? "Name the agent of your workers: `agent: claude` in holdfast.config.yaml, or `--agent claude`. It need not be on this machine."
                : `${unnamedAgent.hint} Any other program works too: \`--agent command:PROGRAM\`. \`holdfast demo\` needs none.`,
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
    ofMachine: true,
    mistake: "the agent is not installed",
    level: "error",
    code: "NEEDS_DECISION",
    noticeIn: "dry-run",
    judge: ({ agents }) =>
      agents.flatMap(({ provider, probe, fallback }) => (probe.installed || fallback ? [] : [cannot(provider, probe)])),
  },
  {
    check: "agent_old",
    ofMachine: true,
    mistake: "the agent is too old",
    level: "error",
    code: "NEEDS_DECISION",
    noticeIn: "dry-run",
    judge: ({ agents }) => agents.flatMap((agent) => (isTooOld(agent) ? [cannot(agent.provider, agent.probe)] : [])),
  },
  {
    check: "agent_login",
    ofMachine: true,
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
    ofMachine: true,
    mistake: "the program of a command agent does not exist or is not executable",
    level: "error",
    code: "NEEDS_DECISION",
    noticeIn: "dry-run",
    judge: ({ commands }) => commands.filter(({ isAgent }) => isAgent).map(commandMissing),
  },
  {
    check: "command",
    ofMachine: true,
    mistake: "the program of a gate or a check does not exist or is not executable",
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
                hint: writeHint(path, problem),
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
];

/** Another place for worktrees does not help where git itself cannot write. */
function writeHint(path: string, problem: string): string {
  const isGit = /\/\.git(?:\/|$)/.test(path);
  if (problem === "the file system is read-only" && isGit)
    return "Mount it for writing, or clone the repository to another disk.";
  const elsewhere = isGit ? "" : " `workspace.worktrees` in holdfast.config.yaml moves the worktrees elsewhere.";
  return `Look at its owner and permissions: \`ls -ld ${quote(path)}\`.${elsewhere}`;
}

/** A task that can do without a forge: how to work without one. */
function withoutForge({ work, forgeUse }: Pick<StartFacts, "work" | "forgeUse">): string {
  if (work.kind !== "task" || forgeUse !== "optional") return "";
  return " Or work without issues and pull requests: `holdfast setup --yes --forge none`.";
}

const NEEDS_ISSUE = "This workflow needs an issue";
export const NEW_REPOSITORY = 'Make it one: `git init && git add --all && git commit -m "First commit"`.';

function quote(path: string): string {
  return /^[\w./+-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}

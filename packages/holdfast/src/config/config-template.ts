/** The template of holdfast.config.yaml, and the wording of the retention rules that the help and the docs share. */
import { AGENT_LIST } from "@holdfast/core/agent";
import { type Setting, mergeConfig } from "./effective-config.ts";

/** The file that `holdfast setup --defaults` writes: every key with its default and a line of explanation. */
export function configTemplate(): string {
  const { entries } = mergeConfig({ file: null, env: {}, cwd: "/", storeFlag: undefined });
  const value = (key: string): string => valueText(entries.find((entry) => entry.key === key)?.value ?? "");
  const keeps = entries.flatMap(({ key }) => (key.startsWith("retention.keep.") ? [key] : []));
  return `# Holdfast. Everything here is optional: a key that is absent has the default shown. See: holdfast help config

# Where checkpoints are stored. Default: a directory inside .git, shared by all worktrees, never committed.
# store:
#   path: ../holdfast-store
#   # For the database and Holdfast's git objects: a size, or none. From 80 % of it on a run reports the largest runs;
#   # at the limit runs wait. Nothing is dropped because of it.
#   maxSize: 20GB

# What "holdfast gc" and the daily clean-up may drop. Every drop leaves a tombstone.
${comment(`Never dropped, whatever is written here: ${neverDroppedText()}.`)}
retention:
  # What the keys below are by default: standard, or loops (the newest 5 of a run for 30 days, of a done run the latest).
  preset: ${value("retention.preset")}
  # How many to keep, newest first, by the reason a checkpoint was taken: a number, "all", or { keep: 5, per: stage }.
  keep:
${keeps.map((key) => `    ${key.slice("retention.keep.".length)}: ${value(key)}`).join("\n")}
  # Not more than so many of one run, newest first, whatever their reasons. A number or none.
  maxPerRun: ${value("retention.maxPerRun")}
  # A duration (90d, 12h, 2w) or never: ${AGE_RULE}.
  maxAge: ${value("retention.maxAge")}
  # ${capital(MINIMUM_AGE_RULE)}. A duration or none.
  minRunAge: ${value("retention.minRunAge")}
  # keep_latest, latest_only or by_rules (the counts above): ${DONE_RULE}.
  onSuccess: ${value("retention.onSuccess")}
  # When a run failed for good: keep_recent (everything of the time below) or by_rules.
  onFailure: ${value("retention.onFailure")}
  recent: ${value("retention.recent")}
  # For the whole store; the oldest that may go, go first. A size (5GB, 500MiB) or none.
  maxBytes: ${value("retention.maxBytes")}

workspace:
  # Untracked files above this are not saved; each checkpoint names the ones it left out.
  maxUntrackedBytes: ${value("workspace.maxUntrackedBytes")}
  # Also save what .gitignore names (build output, dependencies).
  includeIgnored: ${value("workspace.includeIgnored")}
  # A change in your main checkout during an agent call: ask, or only report it.
  mainCheckout: ${value("workspace.mainCheckout")}
  # Where the worktrees of forks are made. Default: beside the main worktree.
  # worktrees: ../worktrees

gc:
  # Clean up once a day after a checkpoint, by the rules above, and say so when something was dropped.
  auto: ${value("gc.auto")}

${comment(`Who works on issues ("holdfast run"): provider:model, or the provider alone for its default model. The providers: ${AGENT_LIST}. "holdfast agents" shows which are ready, "holdfast setup" writes this line.`)}
# agent: command:./my-agent
# Another one for a stage; without it, the agent above.
# models:
#   impl: command:./my-agent
#   review: command:./my-reviewer

# What is recorded of each run: default (its journal), logged (every call, to replay it), seeded (logged, with a seed), or strict (logged, and a resume
# refuses to go on where something is not as it was recorded).
mode: ${value("mode")}

agents:
  # One that prints nothing for this long hangs: it is ended and tried again. A duration, or none.
  maxIdle: ${value("agents.maxIdle")}
  # Also a checkpoint whenever a run has gone on for this long without one, so that hours of work are safe. A duration, or none.
  checkpointEvery: ${value("agents.checkpointEvery")}
  # Further arguments for the makers' programs. Default: none.
  # args:
  #   codex: [--sandbox, read-only]
  # Variables of your environment that agents, gates and checks get besides those that they always get (docs/agents.md). Default: none.
  # env: [DATABASE_URL, MYAPP_*]

forge:
  # Where issues and pull requests are: auto (told from the remote), github, gitlab, local (files beside a bare
  # repository) or none.
  kind: ${value("forge.kind")}
  # Directory of the local forge. Default: the remote's own.
  # path: ../remote.git
  # Host of GitHub or GitLab, where the remote's URL does not tell it: a server of your own, or an alias of ssh.
  # host: ghe.example.com

# From an issue to a pull request.
impl:
  maxIterations: ${value("impl.maxIterations")}
  maxReviews: ${value("impl.maxReviews")}
  # When that many reviews have said no: proceed (to the pull request) or fatal.
  onMaxReviews: ${value("impl.onMaxReviews")}
  # A review by an agent after each implementation, and a round that makes the result simpler.
  review: ${value("impl.review")}
  simplify: ${value("impl.simplify")}
  # The agent may act without asking.
  yolo: ${value("impl.yolo")}
  # After the pull request: wait for its checks, and mend what fails.
  waitForCi: ${value("impl.waitForCi")}
  # While it waits: mend what people ask for in reviews of the pull request.
  heedReviews: ${value("impl.heedReviews")}
  draft: ${value("impl.draft")}
  # Where to go on after a clean rebase: review or impl.
  afterRebase: ${value("impl.afterRebase")}
  # A shell command that must succeed before a review; its output is told to the agent when it does not.
  # gate: npm test
  # Branch to start from and to merge into. Default: the remote's own.
  # base: main
  # Your own prompt templates. Default: those that are built in.
  # prompts:
  #   impl: docs/impl-prompt.md
  #   review: docs/review-prompt.md
  #   simplify: docs/simplify-prompt.md
  #   rebase: docs/rebase-prompt.md
  # Tags that may begin a pull request's title. Default: the list that is built in.
  # tags: [feat, bugfix, docs]
  # Scores that a review must reach.
  thresholds:
    faithful: ${value("impl.thresholds.faithful")}
    style: ${value("impl.thresholds.style")}
    docs: ${value("impl.thresholds.docs")}
    cornerCases: ${value("impl.thresholds.cornerCases")}

# Loops: "holdfast run --workflow ralph".
ralph:
  # The shell command (or a list of them) that succeeds when a loop is done.
  # until: npm test
  # How long it may take, and whether it is run before the first round: what holds already costs nothing then.
  untilTimeout: ${value("ralph.untilTimeout")}
  firstCheck: ${value("ralph.firstCheck")}
  maxIterations: ${value("ralph.maxIterations")}
  # How many reflections go into the next prompt (1 to 10), and which makes room: fifo, recency or relevance_weighted.
  memory: ${value("ralph.memory")}
  memoryPolicy: ${value("ralph.memoryPolicy")}
  # When nothing moves any more: stop, ask (a person), or rollback (once to the best round, then stop).
  onStuck: ${value("ralph.onStuck")}
  # What counts as trouble, each a number or none: so many iterations with the same failure or without a change; so many turns
  # between the same two states; so many points of quality below the best; so many iterations that the burn rate is told from.
  detection:
    stuck: ${value("ralph.detection.stuck")}
    oscillation: ${value("ralph.detection.oscillation")}
    regression: ${value("ralph.detection.regression")}
    burn: ${value("ralph.detection.burn")}
  # What the quality of an iteration is made of; only the proportions matter, and what cannot be measured is left out.
  quality:
    validation: ${value("ralph.quality.validation")}
    completeness: ${value("ralph.quality.completeness")}
    correctness: ${value("ralph.quality.correctness")}
    readability: ${value("ralph.quality.readability")}
    efficiency: ${value("ralph.quality.efficiency")}
  # What an iteration may reasonably take: without it efficiency is not judged.
  tokensPerIteration: ${value("ralph.tokensPerIteration")}

# What is done when a call of an agent fails: tried again after each wait of retry. When these are used up (exhausted): wait,
# fallback (to the agents named here, in their order), escalate, abort or ignore. The first rule that fits decides before all
# of that. See docs/error-handling.md
errors:
  exhausted: ${value("errors.exhausted")}
  fallback:
    # agents: [codex, claude:haiku]
    tries: ${value("errors.fallback.tries")}
  # retry: { max: 5, delay: 2s, multiplier: 4, maxDelay: 5m, jitter: 0.2 }
  # rules:
  #   - { id: quota, causes: [rate_limit], pattern: "usage limit|quota", action: fallback }
  # Rules of an AIWG document, behind those above.
  # import: .aiwg/error-handling.yaml

# Checkpoints on top of those that a run cannot do without; none is taken where the newest holds it all.
checkpoints:
  artifactComplete: ${value("checkpoints.artifactComplete")}
  beforeExternal: ${value("checkpoints.beforeExternal")}
  beforeRisky: ${value("checkpoints.beforeRisky")}

# How many loops may be at work at once in this repository, or none for no limit, and which workflows count as loops. One more
# is refused; with --wait it waits for its turn.
loops:
  max: ${value("loops.max")}
  workflows: [${value("loops.workflows")}]

# Checkpoints of runs also as another tool reads them, up to date after each one: impl-json, crunch-yaml, context-store,
# loop-json, or none. See: holdfast help mirror
mirror:
  format: ${value("mirror.format")}
  # Where that tool looks. Default: the run's worktree.
  # directory: .

# Checkpoints of loops ("holdfast run --workflow ralph") also as .aiwg/ralph/loops/{loop}/checkpoints/iteration-NNN.json.gz,
# with registry.json, state.json and reflection-memory.json, as they are saved. Holdfast itself never reads them back.
aiwg:
  mirror: ${value("aiwg.mirror")}
  # Where .aiwg is. Default: the main worktree.
  # directory: .
  # What the daily clean-up leaves there: so many of a loop, not older than that (a duration or never) ...
  keep: ${value("aiwg.keep")}
  maxAge: ${value("aiwg.maxAge")}
  # ... of one that is done the latest (keep_latest), of one that failed all of that age (keep_all_recent); or by_rules.
  onSuccess: ${value("aiwg.onSuccess")}
  onFailure: ${value("aiwg.onFailure")}

# What tokens cost, for agents that tell no money: US dollars for a million, before the prices that are built in. What
# stands in neither is shown as unknown.
# prices:
#   codex:gpt-5.5: { input: 1.25, cached: 0.125, output: 10 }

# For one run, all its sessions together. At 80 % there is a notice, at 100 % the run waits. Numbers, dollars, a duration; or none.
budget:
  maxTokens: ${value("budget.maxTokens")}
  maxCost: ${value("budget.maxCost")}
  maxTime: ${value("budget.maxTime")}
`;
}

function valueText(value: Setting["value"]): string {
  return typeof value === "object" ? `{ keep: ${value.keep}, per: ${value.per} }` : String(value);
}

function comment(text: string): string {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > 118) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines.map((line) => `# ${line}`).join("\n");
}

function capital(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

/**
 * What no retention rule drops, in the words that `gc --help`, docs/config.md and the config template share. A test
 * compares all of them with this list. The rules themselves are in packages/core/src/retention.ts and gc.ts.
 */
export const RETENTION_EXCEPTIONS = [
  "the newest checkpoint of a run",
  "the newest it can resume from",
  "the best scored one",
  "tagged ones",
  "the parent of a fork",
  "the only copy of commits that no branch or remote has any more",
  "the only copy of files that a restore replaced",
] as const;

/** The rule for age and for ended runs, in the words that all texts share. */
export const AGE_RULE = 'what a number keeps goes when it is older than maxAge; what "all" keeps stays';
export const DONE_RULE = "with keep_latest a run that is done keeps its latest checkpoint and the manual ones";

export const MINIMUM_AGE_RULE =
  "nothing of a run is dropped by these rules before its newest checkpoint is older than minRunAge; rules of your own without minRunAge apply at once";

export function neverDroppedText(): string {
  const [last = "", ...others] = RETENTION_EXCEPTIONS.toReversed();
  return `${others.toReversed().join(", ")} and ${last}`;
}

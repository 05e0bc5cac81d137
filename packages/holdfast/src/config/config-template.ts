/**
 * The text of holdfast.config.yaml: its template, edits that keep all other lines, and the wording of the retention rules that the help and
 * the docs share.
 */
import { Document, isMap, isScalar, parseDocument, stringify } from "yaml";
import { AGENT_LIST } from "@holdfast/core/agent";
import { type Setting, mergeConfig } from "./effective-config.ts";

/** The file that `holdfast setup --defaults` writes: every key with its default and a line of explanation. */
export function configTemplate(): string {
  const { entries } = mergeConfig({ file: null, env: {}, cwd: "/", storeFlag: undefined });
  const value = (key: string): string => valueText(entries.find((entry) => entry.key === key)?.value ?? "");
  const keeps = entries.flatMap(({ key }) => (key.startsWith("retention.keep.") ? [key] : []));
  return `# Holdfast. Every key is optional: a missing key has the default shown here. See: holdfast help config

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
  # At most this many checkpoints of one run, newest first. A number or none.
  maxPerRun: ${value("retention.maxPerRun")}
  # A duration (90d, 12h, 2w) or never: ${AGE_RULE}.
  maxAge: ${value("retention.maxAge")}
  # ${capital(MINIMUM_AGE_RULE)}. A duration or none.
  minRunAge: ${value("retention.minRunAge")}
  # keep_latest, latest_only or by_rules (the counts above): ${DONE_RULE}.
  onSuccess: ${value("retention.onSuccess")}
  # For a failed run: keep_recent (everything younger than recent) or by_rules.
  onFailure: ${value("retention.onFailure")}
  recent: ${value("retention.recent")}
  # Limit of the whole store; the oldest droppable checkpoints go first. A size (5GB, 500MiB) or none.
  maxBytes: ${value("retention.maxBytes")}

workspace:
  # Larger untracked files are not saved; each checkpoint lists them.
  maxUntrackedBytes: ${value("workspace.maxUntrackedBytes")}
  # Also save what .gitignore names (build output, dependencies).
  includeIgnored: ${value("workspace.includeIgnored")}
  # A change in your main checkout during an agent call: ask, or only report it.
  mainCheckout: ${value("workspace.mainCheckout")}
  # Where the worktrees of forks are made. Default: next to the main worktree.
  # worktrees: ../worktrees
  # Shell commands that make the fresh worktree of a run usable, run before its first agent call and again when a lockfile changes.
  # "holdfast setup" proposes them. Default: none.
  # setup: npm ci
  # Files that git ignores and that are copied from the main checkout into the worktrees of runs: paths or patterns. Default: none.
  # copy: [.env, "config/*.local.json"]

gc:
  # Apply the rules above once a day after a checkpoint, and report what was dropped.
  auto: ${value("gc.auto")}

# The git remote that gets the files of runs, by name or URL, so that another machine with the same store can continue them; or none.
files:
  remote: ${value("files.remote")}

# The queue of submitted runs ("holdfast submit"), which workers share. See: docs/team.md
fleet:
  # Where it is: a directory or a postgres:// URL, for several repositories at once. Default: beside the store. Also HOLDFAST_DISPATCH.
  # dispatch: postgres://holdfast@db.example/team
  # How many submitted runs may work at once, over all workers: of each queue and of each repository. A number or none; 0 pauses.
  perQueue: ${value("fleet.perQueue")}
  perRepository: ${value("fleet.perRepository")}
  # The same for queues and repositories by name.
  # queues: { claude: 4, codex: 2 }
  # repositories: { acme/shop: 3 }
  # How many submitted runs that call an agent, in any role, may work at once.
  # agents: { codex: 2 }
  # A run joins the queue of its agent. Agents that use up one quota share a queue.
  # queueOf: { claude: anthropic, opencode: anthropic }

${comment(`The agent that works on issues ("holdfast run"): provider:model, or the provider alone for its default model. The providers: ${AGENT_LIST}. "holdfast agents" shows which are ready, "holdfast setup" writes this line.`)}
# agent: command:./my-agent
# The agent for a stage. Default: the agent above.
# models:
#   impl: command:./my-agent
#   review: command:./my-reviewer

# Recording mode: default (the journal), logged (every call, for replay), seeded (logged, with a seed), or strict (logged, and a resume stops
# if something differs from the record).
mode: ${value("mode")}

agents:
  # An agent that prints nothing for this long is ended and called again. A duration, or none.
  maxIdle: ${value("agents.maxIdle")}
  # Also save a checkpoint when a run has worked this long without one. A duration, or none.
  checkpointEvery: ${value("agents.checkpointEvery")}
  # Further arguments for the agents' programs. Default: none.
  # args:
  #   codex: [--sandbox, read-only]
  # Variables of your environment that agents, gates and checks also get (docs/agents.md lists the standard ones). Default: none.
  # env: [DATABASE_URL, MYAPP_*]

forge:
  # Where issues and pull requests are: auto (detected from the remote), github, gitlab, local (files next to a bare
  # repository) or none.
  kind: ${value("forge.kind")}
  # Directory of the local forge. Default: the remote's own.
  # path: ../remote.git
  # Host of GitHub or GitLab, if the remote's URL does not contain it: your own server, or an ssh alias.
  # host: ghe.example.com

# From an issue to a pull request.
impl:
  maxIterations: ${value("impl.maxIterations")}
  maxReviews: ${value("impl.maxReviews")}
  # After that many failed reviews: proceed (to the pull request) or fatal.
  onMaxReviews: ${value("impl.onMaxReviews")}
  # More limits. prAttempts, rebases and simplifications count failures in the whole run. parseFailures, reviewFailures and
  # stuck count consecutive iterations: files that do not parse, reviews without a new best score, no change at all.
  limits:
    prAttempts: ${value("impl.limits.prAttempts")}
    rebases: ${value("impl.limits.rebases")}
    parseFailures: ${value("impl.limits.parseFailures")}
    reviewFailures: ${value("impl.limits.reviewFailures")}
    stuck: ${value("impl.limits.stuck")}
    simplifications: ${value("impl.limits.simplifications")}
  # Let an agent review each implementation, and add a step that simplifies the result.
  review: ${value("impl.review")}
  simplify: ${value("impl.simplify")}
  # The agent may use every tool without asking.
  yolo: ${value("impl.yolo")}
  # After the pull request: wait for its checks, and fix failures.
  waitForCi: ${value("impl.waitForCi")}
  # While it waits: make the changes that reviewers of the pull request request.
  applyReviews: ${value("impl.applyReviews")}
  draft: ${value("impl.draft")}
  # The pull request says that an agent made it.
  attribution: ${value("impl.attribution")}
  # The stage after a clean rebase: review or impl.
  afterRebase: ${value("impl.afterRebase")}
  # A shell command that must succeed before a review; the agent gets its output if it fails.
  # gate: npm test
  # Run the gate on the untouched base first, and ask if it fails there.
  baseGate: ${value("impl.baseGate")}
  # Branch to start from and to merge into. Default: the remote's default branch.
  # base: main
  # Your own prompt templates. Default: the built-in ones.
  # prompts:
  #   impl: docs/impl-prompt.md
  #   review: docs/review-prompt.md
  #   simplify: docs/simplify-prompt.md
  #   rebase: docs/rebase-prompt.md
  #   continue: docs/continue-prompt.md
  # Tags that may begin a pull request's title. Default: a built-in list.
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
  # Its time limit, and whether it also runs before the first iteration: if it succeeds then, no agent is called.
  untilTimeout: ${value("ralph.untilTimeout")}
  firstCheck: ${value("ralph.firstCheck")}
  maxIterations: ${value("ralph.maxIterations")}
  # How many reflections go into the next prompt (1 to 10), and which is dropped first: fifo, recency or relevance_weighted.
  memory: ${value("ralph.memory")}
  memoryPolicy: ${value("ralph.memoryPolicy")}
  # Without progress: stop, ask (you), or rollback (once to the best iteration, then stop).
  onStuck: ${value("ralph.onStuck")}
  # Stall detection, each a number or none. stuck: iterations with the same failure and the same files. oscillation: changes
  # between the same two states. regression: points of quality below the best. burn: iterations for the burn rate.
  detection:
    stuck: ${value("ralph.detection.stuck")}
    oscillation: ${value("ralph.detection.oscillation")}
    regression: ${value("ralph.detection.regression")}
    burn: ${value("ralph.detection.burn")}
  # Weights of the quality of an iteration. Only the proportions matter; what cannot be measured is left out.
  quality:
    validation: ${value("ralph.quality.validation")}
    completeness: ${value("ralph.quality.completeness")}
    correctness: ${value("ralph.quality.correctness")}
    readability: ${value("ralph.quality.readability")}
    efficiency: ${value("ralph.quality.efficiency")}
  # The expected tokens of an iteration. Without it, efficiency is not measured.
  tokensPerIteration: ${value("ralph.tokensPerIteration")}

# When an agent call fails, it is retried after the delays of retry. When the retries are used up (exhausted): wait,
# fallback (to the agents named here, in their order), escalate, abort or ignore. The first matching rule takes precedence over
# that. See docs/error-handling.md
errors:
  exhausted: ${value("errors.exhausted")}
  fallback:
    # agents: [codex, claude:haiku]
    tries: ${value("errors.fallback.tries")}
  # retry: { max: 5, delay: 2s, multiplier: 4, maxDelay: 5m, jitter: 0.2 }
  # rules:
  #   - { id: quota, causes: [rate_limit], pattern: "usage limit|quota", action: fallback }
  # Rules of an AIWG document, after those above.
  # import: .aiwg/error-handling.yaml

# Additional checkpoints; none is saved if the newest one has the same content.
checkpoints:
  artifactComplete: ${value("checkpoints.artifactComplete")}
  beforeExternal: ${value("checkpoints.beforeExternal")}
  beforeRisky: ${value("checkpoints.beforeRisky")}

# Effects that wait for your approval ("holdfast approve RUN approve"): push, pull_request, pull_request_text, state_label, or a kind of your
# own workflow.
# approve: [push, pull_request]

# How many loops may run at once in this repository, or none for no limit, and which workflows count as loops. Another one
# is refused; with --wait it is queued.
loops:
  max: ${value("loops.max")}
  workflows: [${value("loops.workflows")}]

# Also write each checkpoint in the format of another tool: impl-json, crunch-yaml, context-store, loop-json, or none.
# See: holdfast help format mirror
mirror:
  format: ${value("mirror.format")}
  # The root of that tool's files. Default: the run's worktree.
  # directory: .

# Where runs write the files that other tools read: .aiwg of loops, .claude/crunch of crunch runs. own: in the directory of
# the store, or in the repository if that tool's files are there already. seed: always in the repository.
layout: ${value("layout")}

# Loops ("holdfast run --workflow ralph") write checkpoints to .aiwg/ralph/loops/{loop}/checkpoints/iteration-NNN.json.gz, with
# registry.json, state.json and reflection-memory.json. Holdfast itself never reads them.
aiwg:
  mirror: ${value("aiwg.mirror")}
  # The directory that contains .aiwg. Default: as layout says.
  # directory: .
  # What the daily clean-up keeps there: this many checkpoints of a loop, not older than maxAge (a duration or never) ...
  keep: ${value("aiwg.keep")}
  maxAge: ${value("aiwg.maxAge")}
  # ... of a done loop the latest (keep_latest), of a failed one everything younger than maxAge (keep_all_recent); or by_rules.
  onSuccess: ${value("aiwg.onSuccess")}
  onFailure: ${value("aiwg.onFailure")}

# Prices of tokens, for agents that do not report a cost: US dollars per million. They override the built-in prices. The cost of
# other models is shown as unknown.
# prices:
#   codex:gpt-5.5: { input: 1.25, cached: 0.125, output: 10 }

# For one run, all its sessions together. At 80 % the run reports it, at 100 % the run waits. Numbers, dollars, a duration; or none.
budget:
  maxTokens: ${value("budget.maxTokens")}
  maxCost: ${value("budget.maxCost")}
  # Tokens that a call counts as if its agent reports no usage.
  assumedTokens: ${value("budget.assumedTokens")}
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
  "the newest that the run can resume from",
  "the best scored one",
  "tagged ones",
  "the parent of a fork",
  "the only copy of commits that no branch or remote has",
  "the only copy of files that a restore replaced",
] as const;

/** The rule for age and for ended runs, in the words that all texts share. */
export const AGE_RULE =
  'checkpoints kept by a number are dropped when they are older than maxAge; those kept by "all" stay';
export const DONE_RULE = "with keep_latest a run that is done keeps its latest checkpoint and the manual ones";

export const MINIMUM_AGE_RULE =
  "these rules drop nothing of a run until its newest checkpoint is older than minRunAge; your own rules without minRunAge apply at once";

export function neverDroppedText(): string {
  const [last = "", ...others] = RETENTION_EXCEPTIONS.toReversed();
  return `${others.toReversed().join(", ")} and ${last}`;
}

/** A key by its path (one or two names), and its new value. */
export interface ConfigEdit {
  readonly key: readonly string[];
  readonly value: string;
}

/**
 * Returns the text with these keys set and every other line, including comments, unchanged. The text must parse; "" is
 * an empty file.
 */
export function editConfig(text: string, edits: readonly ConfigEdit[]): string {
  return edits.reduce(editOne, text);
}

function editOne(text: string, edit: ConfigEdit): string {
  const document = parseDocument(text, { schema: "core" });
  const edited = editLine(text, document, edit);
  // A file in an unusual form (`{ … }`, aliases) is rewritten: a correct value matters more than the formatting.
  return edited !== null && parseDocument(edited).getIn(edit.key) === edit.value ? edited : rewrite(document, edit);
}

/** Edits single lines, because the YAML library would re-indent comments. null: this form is not supported. */
function editLine(text: string, document: Document.Parsed, { key, value }: ConfigEdit): string | null {
  const node: unknown = document.getIn(key, true);
  const line = `${key.at(-1) ?? ""}: ${stringify(value, { lineWidth: 0 }).trim()}`;
  if (isScalar(node) && node.range) {
    const [start, end] = node.range;
    return `${text.slice(0, start)}${stringify(value, { lineWidth: 0 }).trim()}${text.slice(end)}`;
  }
  const lines = text.split("\n");
  if (key.length === 1) {
    if (document.contents !== null && !isMap(document.contents)) return null;
    return insert(lines, lines.findIndex((one) => one.startsWith(`# ${key[0]}:`)) + 1, line);
  }
  const parent: unknown = document.getIn(key.slice(0, -1), true);
  if (!document.has(key[0])) return insert(lines, 0, `${key[0]}:\n  ${line}`);
  const head = lines.findIndex((one) => one.startsWith(`${key[0]}:`));
  if (!isMap(parent) || parent.flow === true || head === -1) return null;
  const after = lines.findIndex((one, at) => at > head && /^\S/.test(one) && !one.startsWith("#"));
  const body = lines.slice(head + 1, after === -1 ? undefined : after);
  const indent = body.map((one) => /^( +)[^\s#]/.exec(one)?.[1]).find((found) => found !== undefined) ?? "  ";
  const example = body.findIndex((one) => one.startsWith(`${indent}# ${key.at(-1)}:`));
  return insert(lines, head + 1 + (example === -1 ? 0 : example + 1), indent + line);
}

/** `at` 0 appends at the end. */
function insert(lines: readonly string[], at: number, line: string): string {
  if (at > 0) return lines.toSpliced(at, 0, line).join("\n");
  const text = lines.join("\n");
  return `${text}${text === "" || text.endsWith("\n") ? "" : "\n"}${line}\n`;
}

function rewrite(document: Document.Parsed, { key, value }: ConfigEdit): string {
  // `impl:` without a value is null, and a key cannot be set inside null.
  for (let depth = 0; depth < key.length; depth += 1) {
    const path = key.slice(0, depth);
    const node: unknown = depth === 0 ? document.contents : document.getIn(path, true);
    if (!isMap(node)) document.setIn(path, document.createNode({}));
  }
  document.setIn(key, value);
  return document.toString({ lineWidth: 0 });
}

// Git branch operations that the workflows share: finding the base, syncing, rebasing, committing and pushing a run's
// branch.

import { isAcceptedTip } from "@holdfast/core/findings";
import type { Forge } from "@holdfast/core/forge";
import { anyOf, object, parseShape, sha256, text } from "@holdfast/core/json";
import type { EffectOutcome } from "@holdfast/core/workflow";
import type { Branch, PushRefusal, RebaseResult } from "@holdfast/core/branch";
import { HoldfastError } from "@holdfast/platform/error";
import { callForge, sanitizeText, waitOnce } from "./forge.ts";
import { type AnyStageContext, OUTPUT_DIRECTORY, type Worktree } from "./worktree.ts";

export type PushOutcome =
  | { readonly kind: "pushed"; readonly commit: string; readonly remote: string }
  | { readonly kind: "refused"; readonly refusal: PushRefusal; readonly remote: string };

type Receipt = { readonly commit: string };

/**
 * Pushes the head over `expected` only. Retries a push that the remote may accept later. For a refusal that only the
 * user can resolve (access, a secret), the run waits for the user. The push after that is a new effect with its own
 * purpose.
 */
export async function pushBranch(
  context: AnyStageContext,
  worktree: Worktree,
  params: { readonly head: string; readonly expected: string | null },
): Promise<PushOutcome> {
  const { branch } = worktree;
  const remote = await branch.pushRemote();
  if (remote === null)
    return await context.wait({
      for: "you",
      reason: "The repository has no remote to push to. Add one, then resume.",
    });
  await settleCommits(context, worktree);
  for (let attempt = 1; ; attempt += 1) {
    const outcome: EffectOutcome<Receipt> = await context.effect<Receipt>({
      purpose: attempt === 1 ? "push" : `push-${attempt}`,
      kind: "push",
      target: `${remote.url} ${branch.name}`,
      payload: { commit: params.head, expected: params.expected },
      about: `commit ${params.head.slice(0, 10)}${params.expected === null ? "" : `, replaces ${params.expected.slice(0, 10)}`}`,
      ...(params.expected === null ? {} : { risk: `push over ${branch.name} on ${remote.name}` }),
      lookUp: async () => {
        const found = await branch.lookUpRemote(branch.name);
        if (found.kind === "unknown") return { ...found, ...(found.isTemporary ? { later: { until: null } } : {}) };
        return found.commit === params.head
          ? { kind: "present", receipt: { commit: params.head } }
          : { kind: "absent" };
      },
      act: () => push(branch, remote.name, params),
    });
    if (outcome.kind === "done") return { kind: "pushed", commit: params.head, remote: remote.name };
    const refusal = parseShape({ shape: REFUSAL, value: outcome.detail, what: "The refusal of a push" });
    const wait = REFUSED_WAITS_MS[refusal.cause]?.[attempt - 1];
    if (wait !== undefined) {
      await context.sleep(`push-again-${attempt}`, wait);
      continue;
    }
    if (REFUSAL_RESPONSE[refusal.cause] !== "wait") return { kind: "refused", refusal, remote: remote.name };
    const hint = REFUSAL_HINT[refusal.cause] ?? "";
    const reason = `The push to ${remote.name} was refused (${refusal.cause}): ${refusal.message.trim()}. ${hint}${hint === "" ? "" : " "}Fix this, then run \`holdfast resume ${context.run.id}\`.`;
    await waitOnce(context, { name: `push-waiting-${attempt}`, for: "you", reason });
  }
}

/**
 * A connection that fails midway does not show what arrived. The thrown error makes the engine look up the remote
 * before it pushes again.
 */
async function push(
  branch: Branch,
  remote: string,
  params: { readonly head: string; readonly expected: string | null },
): Promise<EffectOutcome<Receipt>> {
  const result = await branch.push({ expected: params.expected });
  if (result.kind !== "refused") return { kind: "done", receipt: { commit: result.commit } };
  const { cause, message } = result.refusal;
  const refused: EffectOutcome<Receipt> = {
    kind: "failed",
    reason: `${cause}: ${message}`,
    detail: { cause, message },
  };
  if (!isTemporary(cause)) return refused;
  throw new HoldfastError({
    code: "FORGE_FAILED",
    message: `Pushing ${branch.name} to ${remote} failed (${cause}): ${message.trim()}`,
    hint: "Resume when the remote answers: it is asked before anything is pushed again.",
    retry: "later",
  });
}

type RefusalAnswer = "rebase" | "fixable" | "fail" | "wait";

/**
 * How the run responds to each cause of a refused push. The record is total, so the compiler rejects a missing cause.
 */
export const REFUSAL_RESPONSE: Readonly<Record<PushRefusal["cause"], RefusalAnswer>> = {
  non_fast_forward: "rebase",
  stale_lease: "rebase",
  // A hook checks the commits, and its message says what to change in them.
  hook: "fixable",
  local_hook: "fixable",
  // No edit makes a protected branch accept this push.
  protected: "fail",
  // Only the user can decide whether it is a secret and what to do about it.
  secret: "wait",
  auth: "wait",
  network: "wait",
  remote: "wait",
  missing_remote: "wait",
  other: "wait",
};

const REFUSAL = object({
  // The record is total, so its keys are exactly the causes.
  cause: anyOf(Object.keys(REFUSAL_RESPONSE) as readonly PushRefusal["cause"][]),
  message: text,
});

/** The remote failed before it checked anything, so a later push can succeed. */
function isTemporary(cause: PushRefusal["cause"]): boolean {
  return cause === "network" || cause === "remote";
}

/** Delays, in milliseconds, before retrying a refused push whose cause may have disappeared by then. */
const REFUSED_WAITS_MS: Readonly<Partial<Record<PushRefusal["cause"], readonly number[]>>> = {
  hook: [2_000],
  other: [2_000, 10_000],
};

/** What the user can do, for causes that the remote's own message does not explain. */
const REFUSAL_HINT: Readonly<Partial<Record<PushRefusal["cause"], string>>> = {
  secret:
    "Remove the secret from every commit of the branch and revoke it, or allow it at the forge (its message has the link).",
};

/**
 * Checks the commits before a push. Possible secrets, content that could not be searched, and messages that take effect
 * at the forge stop the push until the user decides. Holdfast never rewrites commits, because the user may have made
 * them. The check reads the commits every time, because the user may have changed them. An answer is valid only for
 * what was found.
 */
async function settleCommits(context: AnyStageContext, { branch }: Worktree): Promise<void> {
  const { secrets, unsearched, references } = await branch.inspectPush({ issue: context.inputs.issue?.number ?? null });
  const places = [...secrets, ...unsearched].map(
    // Line 0 is the file as a whole.
    ({ path, line, kind, commit }) =>
      `${line === 0 ? path : `${path}:${line}`} (${kind}, commit ${commit.slice(0, 10)})`,
  );
  const what =
    unsearched.length === 0
      ? "what looks like a secret"
      : secrets.length === 0
        ? "what could not be searched for secrets"
        : "what looks like a secret, and what could not be searched";
  const resume = `run \`holdfast resume ${context.run.id} --accept head_moved\``;
  await ask(context, {
    name: "secrets",
    found: places,
    what,
    fix: `If it is one, remove it from every commit of ${branch.name} in ${branch.root}, revoke it, then ${resume}.`,
    otherwise: "If it is none, answer push.",
  });
  await ask(context, {
    name: "references",
    found: references.map(({ commit, text }) => `commit ${commit.slice(0, 10)}: ${text}`),
    what: "commit messages that close other issues or notify a group",
    fix: `To change them, reword the commits of ${branch.name} in ${branch.root}, then ${resume}.`,
    otherwise: "To publish them as they are, answer push.",
  });
}

async function ask(
  context: AnyStageContext,
  params: {
    readonly name: string;
    readonly found: readonly string[];
    readonly what: string;
    readonly fix: string;
    readonly otherwise: string;
  },
): Promise<void> {
  const { name, found, what, fix, otherwise } = params;
  if (found.length === 0) return;
  const shown = [...new Set(found)].slice(0, SHOWN);
  const more = found.length > SHOWN ? ` and ${found.length - SHOWN} more` : "";
  const list = `${shown.join(", ")}${more}`;
  const answer = await context.decide({
    name: `${name}-${sha256(JSON.stringify(found)).slice(0, 12)}`,
    question: `The push would publish ${what}: ${list}. Nothing was pushed. ${fix} ${otherwise}`,
    options: ["push", "stop"],
    recheck: true,
  });
  if (answer === "push") return;
  await context.wait({ for: "you", reason: `Nothing was pushed: the commits hold ${what}: ${list}. ${fix}` });
}

const SHOWN = 10;

type RemoteAnswer =
  /** `expected` is the remote tip that the push may replace; null if the remote has no such branch. */
  { readonly kind: "go"; readonly expected: string | null } | { readonly kind: "stop"; readonly reason: string };

/** Never replaces other people's commits on the run's branch unless the user confirms it. */
export async function checkRemoteBranch(
  context: AnyStageContext,
  { branch }: Worktree,
  { head }: { readonly head: string },
): Promise<RemoteAnswer> {
  const found = await callForge(context, () =>
    context.step(
      "remote-tip",
      async () => {
        await fetchRemote(branch);
        const tip = await branch.remoteBranch(branch.name);
        return { tip, ours: tip === null || (await branch.isAncestor({ ancestor: tip, of: head })) };
      },
      { title: "fetching the branch" },
    ),
  );
  if (found.ours || isAcceptedTip(context.extensions, found.tip)) return { kind: "go", expected: found.tip };
  const answer = await context.decide({
    name: "unknown-commits",
    question: `${branch.name} on the remote is at ${found.tip ?? "nothing"}, which is not part of this run's work (${head}). Replace it, or stop?`,
    options: ["replace", "stop"],
  });
  if (answer === "replace") return { kind: "go", expected: found.tip };
  return { kind: "stop", reason: `Stopped by the user: ${branch.name} on the remote has commits of others` };
}

type SyncOutcome =
  /** `pushed` is the tip of this branch on the remote, or null. Later pushes replace this commit. */
  | { readonly kind: "synced"; readonly pushed: string | null }
  | { readonly kind: "conflict"; readonly reason: string }
  /** The user chose neither to build on the remote branch nor to replace it. */
  | { readonly kind: "stopped"; readonly reason: string };

/**
 * Rebases an existing branch onto its remote branch, then onto the base. Builds on remote commits that the local branch
 * lacks only if the user agrees. A conflict is reported and changes nothing.
 */
export async function syncBranch(
  context: AnyStageContext,
  worktree: Worktree,
  params: { readonly base: Base; readonly at: string },
): Promise<SyncOutcome> {
  const { base, at } = params;
  const { branch } = worktree;
  const pushed = await context.step("pushed", () => branch.remoteBranch(branch.name), {
    title: "looking for the pushed branch",
  });
  const isExternal =
    pushed !== null &&
    (await context.step("pushed-external", () => isNew(worktree, pushed, base), {
      title: "comparing the branch with its remote",
    }));
  const isOpen = isExternal && !isAcceptedTip(context.extensions, pushed);
  const answer = isOpen ? await askForeign(context, worktree, pushed) : "ours";
  if (answer === "stop")
    return {
      kind: "stopped",
      reason: `Stopped by you: ${branch.name} on the remote has commits of others (${pushed})`,
    };
  for (const [step, onto, name] of [
    ["sync-own", answer === "theirs" ? pushed : null, `${branch.name} on the remote`],
    ["sync-base", base.commit, base.branch],
  ] as const) {
    if (onto === null) continue;
    const result = await rebaseOnto(context, worktree, { step, onto, at });
    if (result.kind === "conflict")
      return {
        kind: "conflict",
        reason: `${branch.name} does not go onto ${name} without conflicts in ${result.files.join(", ")}; nothing was changed. Rebase it by hand, or remove the branch and start again`,
      };
  }
  return { kind: "synced", pushed };
}

/**
 * Takes the pushed commits that the branch of an imported run lacks, so that its first phase builds on them. The branch
 * moves forward only; about a diverged one the user is asked.
 */
export async function followPushed(
  context: AnyStageContext,
  worktree: Worktree,
  { at }: { readonly at: string },
): Promise<void> {
  const { branch } = worktree;
  const found = await callForge(context, () =>
    context.step(
      "pushed-own",
      async () => {
        await fetchRemote(branch);
        const tip = await branch.remoteBranch(branch.name);
        const head = await branch.head();
        if (tip === null || (await branch.isAncestor({ ancestor: tip, of: head }))) return { tip: null, behind: false };
        return { tip, behind: await branch.isAncestor({ ancestor: head, of: tip }) };
      },
      { title: "fetching the branch" },
    ),
  );
  if (found.tip === null) return;
  const answer = found.behind ? "theirs" : await askForeign(context, worktree, found.tip);
  if (answer === "ours") return;
  const reason = `${branch.name} and its remote branch (${found.tip}) have diverged`;
  if (answer === "stop") await context.wait({ for: "you", reason: `${reason}. Join them, then resume.` });
  const result = await rebaseOnto(context, worktree, { step: "follow-own", onto: found.tip, at });
  if (result.kind === "conflict")
    await context.wait({
      for: "you",
      reason: `${reason}, with conflicts in ${result.files.join(", ")}. Nothing was changed. Rebase it by hand, then resume.`,
    });
}

async function isNew({ branch }: Worktree, tip: string, base: Base): Promise<boolean> {
  if (await branch.isAncestor({ ancestor: tip, of: await branch.head() })) return false;
  return !(await branch.isAncestor({ ancestor: tip, of: base.commit }));
}

async function askForeign(context: AnyStageContext, { branch }: Worktree, tip: string): Promise<string> {
  return await context.decide({
    name: "unknown-branch",
    question: `The remote already has a branch ${branch.name} with commits that are not part of this run (${tip}). Build on theirs, replace them with ours, or stop?`,
    options: ["theirs", "ours", "stop"],
  });
}

/**
 * Rebases in its own step, so that it happens once. If the branch already contains `onto`, no file-changing step
 * starts.
 */
export async function rebaseOnto(
  context: AnyStageContext,
  { branch }: Worktree,
  params: { readonly step: string; readonly onto: string; readonly at: string },
): Promise<RebaseResult> {
  const { step, onto, at } = params;
  const there = await context.step(
    `${step}-look`,
    async () => {
      const head = await branch.head();
      return (await branch.isAncestor({ ancestor: onto, of: head })) ? head : null;
    },
    { title: "comparing the branches" },
  );
  if (there !== null) return { kind: "up_to_date", commit: there };
  const result = await context.step(
    step,
    async () => {
      const done = await branch.rebase({ onto, at });
      return { ...done };
    },
    { changesFiles: true, risk: `rebase of ${branch.name}`, title: "rebasing" },
  );
  return result;
}

/** The branch that the pull request targets, and its commit from which the run's own changes are measured. */
export type Base = { readonly branch: string; readonly commit: string };

type BaseAnswer =
  | { readonly kind: "found"; readonly base: Base }
  | { readonly kind: "missing"; readonly reason: string };

/**
 * Fetches the base branch and returns its tip on the remote. Throws FORGE_FAILED if there is no remote or it does not
 * answer, and FORGE_DENIED if it refuses access.
 */
export async function findBase(params: {
  readonly branch: Branch;
  readonly forge: Forge;
  readonly named: string | null;
}): Promise<BaseAnswer> {
  const { branch } = params;
  const remote = await branch.remote();
  if (remote === null)
    throw new HoldfastError({ code: "FORGE_FAILED", message: "The repository has no remote to push to" });
  await fetchRemote(branch);
  const name = params.named ?? (await branch.defaultBranch()) ?? (await params.forge.defaultBranch());
  const commit = await branch.remoteBranch(name);
  if (commit === null) return { kind: "missing", reason: `The remote ${remote.name} has no branch ${name}` };
  return { kind: "found", base: { branch: name, commit } };
}

/** Finds the base once for each stage attempt; the run waits while the forge or the remote does not answer. */
export async function fetchBase(context: AnyStageContext, params: Parameters<typeof findBase>[0]): Promise<BaseAnswer> {
  return await callForge(context, () =>
    context.step("base", () => findBase(params), { title: "fetching the base branch" }),
  );
}

/** Throws FORGE_FAILED if the remote does not answer, and FORGE_DENIED if it refuses access. */
export async function fetchRemote(branch: Pick<Branch, "fetch" | "remote">): Promise<void> {
  const fetched = await branch.fetch();
  if (fetched.kind !== "failed") return;
  const { cause, message } = fetched.refusal;
  const remote = (await branch.remote())?.name ?? "of this repository";
  throw new HoldfastError({
    code: cause === "auth" ? "FORGE_DENIED" : "FORGE_FAILED",
    message: `The remote ${remote} cannot be reached (${cause}): ${message.trim()}`,
    retry: isTemporary(cause) ? "later" : "ask",
  });
}

/**
 * Commits the files as they are. The result `moved` compares the head with `before`, not with what this attempt
 * committed. After a crash between the commit and its record, the second attempt commits nothing and must still report
 * the change.
 */
export async function commitWork(
  context: AnyStageContext,
  { branch }: Worktree,
  params: { readonly step: string; readonly message: string; readonly before: string; readonly at: string },
): Promise<{ readonly head: string; readonly moved: boolean }> {
  const message = await sanitizeText(context, { what: "The commit message", text: params.message, kind: "plain" });
  return await context.step(
    params.step,
    async () => {
      await branch.commit({ message, at: params.at, exclude: [OUTPUT_DIRECTORY] });
      const head = await branch.head();
      return { head, moved: head !== params.before };
    },
    { changesFiles: true, title: "committing" },
  );
}

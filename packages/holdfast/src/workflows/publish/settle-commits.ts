import { pureSha256 } from "../../core/sha256.ts";
import type { AnyContext } from "../any-context.ts";
import type { Worktree } from "../worktree.ts";

/**
 * Before a push: secrets in the commits, what could not be searched for them, and messages that take effect at the forge stop it until the user decides.
 * Commits are never rewritten: the user may have made them. They are read again each time, since the user may have changed them; an answer holds for what was
 * found, and not for anything else.
 */
export async function settleCommits(context: AnyContext, { branch }: Worktree): Promise<void> {
  const { secrets, unsearched, references } = await branch.inspectPush({ issue: context.inputs.issue?.number ?? null });
  const places = [...secrets, ...unsearched].map(
    ({ path, line, kind, commit }) => `${path}:${line} (${kind}, commit ${commit.slice(0, 10)})`,
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
  context: AnyContext,
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
    name: `${name}-${pureSha256(JSON.stringify(found)).slice(0, 12)}`,
    question: `The push would publish ${what}: ${list}. Nothing was pushed. ${fix} ${otherwise}`,
    options: ["push", "stop"],
    recheck: true,
  });
  if (answer === "push") return;
  await context.park({ on: "person", reason: `Nothing was pushed: the commits hold ${what}: ${list}. ${fix}` });
}

const SHOWN = 10;

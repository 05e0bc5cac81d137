import { pureSha256 } from "../../core/sha256.ts";
import type { AnyContext } from "../any-context.ts";
import type { Worktree } from "../worktree.ts";

/**
 * Before a push: secrets in the commits, and what could not be searched for them, stop it until the user decides. Looked at anew each time, since the user may have changed the commits; the
 * answer holds for what was found, and not for anything else.
 */
export async function settleSecrets(context: AnyContext, { branch }: Worktree): Promise<void> {
  const { found: secrets, unsearched } = await branch.pushedSecrets();
  const found = [...secrets, ...unsearched];
  if (found.length === 0) return;
  const places = found.map(
    ({ path, line, kind, commit }) => `${path}:${line} (${kind}, commit ${commit.slice(0, 10)})`,
  );
  const shown = [...new Set(places)].slice(0, SHOWN);
  const more = places.length > SHOWN ? ` and ${places.length - SHOWN} more` : "";
  const list = `${shown.join(", ")}${more}`;
  const fix = `remove it from every commit of ${branch.name} in ${branch.root}, revoke it, then run \`holdfast resume ${context.run.id}\``;
  const what =
    unsearched.length === 0
      ? "what looks like a secret"
      : secrets.length === 0
        ? "what is too large to be searched for secrets"
        : "what looks like a secret, and what is too large to be searched";
  const answer = await context.decide({
    name: `secrets-${pureSha256(JSON.stringify(found)).slice(0, 12)}`,
    question: `The push would publish ${what}: ${list}. Nothing was pushed. If it is one, ${fix}. If it is none, answer push.`,
    options: ["push", "stop"],
  });
  if (answer === "push") return;
  await context.park({
    on: "person",
    reason: `Nothing was pushed: the commits hold ${what}: ${list}. To continue, ${fix}.`,
  });
}

const SHOWN = 10;

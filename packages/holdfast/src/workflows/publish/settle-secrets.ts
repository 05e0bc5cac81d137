import { pureSha256 } from "../../core/sha256.ts";
import type { AnyContext } from "../any-context.ts";
import type { Worktree } from "../worktree.ts";

/**
 * Before a push: secrets in the commits stop it until the user decides. Looked at anew each time, since the user may have changed the commits; the
 * answer holds for what was found, and not for anything else.
 */
export async function settleSecrets(context: AnyContext, { branch }: Worktree): Promise<void> {
  const { found, cut } = await branch.pushedSecrets();
  if (cut)
    await context.note(
      "The commits to push are too large to search for secrets as a whole; the rest was not searched.",
    );
  if (found.length === 0) return;
  const places = found.map(
    ({ path, line, kind, commit }) => `${path}:${line} (${kind}, commit ${commit.slice(0, 10)})`,
  );
  const shown = [...new Set(places)].slice(0, SHOWN);
  const more = places.length > SHOWN ? ` and ${places.length - SHOWN} more` : "";
  const list = `${shown.join(", ")}${more}`;
  const fix = `remove it from every commit of ${branch.name} in ${branch.root}, revoke it, then run \`holdfast resume ${context.run.id}\``;
  const answer = await context.decide({
    name: `secrets-${pureSha256(JSON.stringify(found)).slice(0, 12)}`,
    question: `The push would publish what looks like a secret: ${list}. Nothing was pushed. If it is one, ${fix}. If it is none, answer push.`,
    options: ["push", "stop"],
  });
  if (answer === "push") return;
  await context.park({
    on: "person",
    reason: `Nothing was pushed: the commits hold what looks like a secret: ${list}. To continue, ${fix}.`,
  });
}

const SHOWN = 10;

import { OUTPUT_DIRECTORY } from "./worktree.ts";
import { publishable } from "./publish/publishable.ts";
import type { AnyContext } from "./any-context.ts";
import type { Worktree } from "./worktree.ts";

/**
 * Commits the files as they are. `moved` compares with the head of before, not with what this try committed: killed after the commit
 * and before it was recorded, the second try finds nothing to commit and must still say that there was something.
 */
export async function commitWork(
  context: AnyContext,
  { branch }: Worktree,
  params: { readonly step: string; readonly message: string; readonly before: string; readonly at: string },
): Promise<{ readonly head: string; readonly moved: boolean }> {
  const message = await publishable(context, { what: "The commit message", text: params.message, kind: "plain" });
  return await context.step(
    params.step,
    async () => {
      await branch.commit({ message, at: params.at, exclude: [OUTPUT_DIRECTORY] });
      const head = await branch.head();
      return { head, moved: head !== params.before };
    },
    { changesFiles: true },
  );
}

import type { WorkParts } from "../../../app.ts";
import type { Branch } from "../../../ports/branch.ts";
import type { Forge } from "../../../ports/forge.ts";

/**
 * The parts as they are, telling each time that something was done to the world and before anybody could write that
 * down: the worst moments to die at.
 */
export function dyingParts(parts: WorkParts, happened: (what: string) => void): WorkParts {
  return {
    ...parts,
    forge: parts.forge === null ? null : dyingForge(parts.forge, happened),
    branches: {
      of: async (worktree) => dyingBranch(await parts.branches.of(worktree), happened),
      asking: (folder) => parts.branches.asking(folder),
    },
  };
}

function dyingForge(forge: Forge, happened: (what: string) => void): Forge {
  const marked = (mark: string): Forge => dyingForge(forge.marked(mark), happened);
  return after(
    { ...forge, marked },
    {
      createPullRequest: () => happened("the pull request was opened"),
      updatePullRequest: () => happened("the pull request was changed"),
      comment: () => happened("a comment was made"),
    },
  );
}

function dyingBranch(branch: Branch, happened: (what: string) => void): Branch {
  return after(branch, {
    commit: () => happened("the files were committed"),
    push: () => happened("the branch was pushed"),
  });
}

/** Calls of these methods, followed by this. Everything else goes straight through, getters and private state too. */
function after<T extends object>(target: T, followers: Readonly<Record<string, () => void>>): T {
  return new Proxy(target, {
    get(object, name) {
      const value: unknown = Reflect.get(object, name, object);
      if (typeof value !== "function") return value;
      const follow = typeof name === "string" && Object.hasOwn(followers, name) ? followers[name] : undefined;
      if (follow === undefined) return value.bind(object);
      return async (...args: readonly unknown[]) => {
        const result: unknown = await Reflect.apply(value, object, args);
        follow();
        return result;
      };
    },
  });
}

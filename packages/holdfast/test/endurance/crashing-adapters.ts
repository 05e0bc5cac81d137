import type { Adapters } from "@holdfast/core/adapters";
import type { Forge } from "@holdfast/core/forge";
import type { Store } from "@holdfast/core/store";
import type { Branch } from "@holdfast/core/branch";
import type { SideWorktrees, Workspace, Workspaces } from "@holdfast/core/workspace";

/** A point at which a process can be killed: `store.commit#12 before` is right before its 12th commit to the store. */
export type Point = string;

/**
 * Wraps the adapters to report each point before and after everything that writes: the journal, the files, the branch,
 * the remote and the forge. An agent's edits are points as well, because the agent survives its parent. "during" is a
 * push in progress.
 */
export function crashingAdapters(adapters: Adapters, reach: (point: Point) => void): Adapters {
  const counts = new Map<string, number>();
  const count = (name: string): string => {
    const nth = (counts.get(name) ?? 0) + 1;
    counts.set(name, nth);
    return `${name}#${nth}`;
  };
  const watch = <T extends object>(part: Part, target: T): T =>
    new Proxy(target, {
      get(object, name) {
        const value: unknown = Reflect.get(object, name, object);
        if (part === "workspaces" && name === "sideWorktrees" && typeof value === "object" && value !== null)
          return watch("sideWorktrees", value);
        if (typeof value !== "function" || typeof name !== "string") return value;
        if (!WRITES[part].includes(name) && !(part === "workspaces" && OPENS.includes(name))) return value.bind(object);
        return async (...args: readonly unknown[]) => {
          const point = WRITES[part].includes(name) ? count(`${part}.${name}`) : null;
          if (point !== null) reach(`${point} before`);
          if (name === "push") reach(`${point} during`);
          const result: unknown = await Reflect.apply(value, object, args);
          if (point !== null) reach(`${point} after`);
          return part === "workspaces" && typeof result === "object" && result !== null
            ? watch("workspace", result)
            : result;
        };
      },
    });
  return {
    ...adapters,
    checksState: true,
    store: watch("store", adapters.store),
    workspaces: adapters.workspaces === null ? null : watch("workspaces", adapters.workspaces),
    forge: adapters.forge === null ? null : watch("forge", adapters.forge),
    branches: {
      of: async (worktree) => watch("branch", await adapters.branches.of(worktree)),
      asking: (folder) => adapters.branches.asking(folder),
    },
    agent(provider) {
      const agent = adapters.agent(provider);
      return {
        ...agent,
        run: (task) =>
          agent.run({
            ...task,
            onEvent(event) {
              task.onEvent(event);
              if (event.kind === "tool") reach(`${count("agent.edit")} after`);
            },
          }),
      };
    },
  };
}

/** Sorts of points, so that a sample has some of each. */
export function familyOf(point: Point): "journal" | "files" | "agent" | "outside" {
  const [part = "", method = ""] = point.split(/[.#]/);
  if (part === "store") return "journal";
  if (part === "agent") return "agent";
  return part === "forge" || method === "push" ? "outside" : "files";
}

interface Parts {
  readonly store: Store;
  readonly workspaces: Workspaces;
  readonly workspace: Workspace;
  readonly sideWorktrees: SideWorktrees;
  readonly forge: Forge;
  readonly branch: Branch;
}
type Part = keyof Parts;

/** Typed by the interfaces, so that a renamed method cannot silently lose its points. */
const METHODS: { readonly [P in Part]: readonly (keyof Parts[P])[] } = {
  store: ["createRun", "takeLease", "releaseLease", "commit"],
  workspaces: ["create"],
  workspace: ["applyRestore"],
  sideWorktrees: ["commit", "pin", "place", "remove"],
  // "checks" starts the CI of a commit.
  forge: ["createPullRequest", "updatePullRequest", "mergePullRequest", "comment", "setLabels", "checks"],
  branch: ["commit", "push", "rebase", "placeConflict", "commitResolved"],
};
const WRITES: Readonly<Record<Part, readonly unknown[]>> = METHODS;
const OPENS: readonly string[] = ["create", "find", "open"];

import type { WorkParts } from "../engine/work-parts.ts";

/** Thrown where a process would have been killed. */
export class Killed extends Error {}

/**
 * The same parts, dead at the n-th call that changes something, before it acts: what was done up to there is done, and nothing after.
 * Everything behind the calls is real and stays as the dead process left it.
 */
export function dyingParts(
  parts: WorkParts,
  call: number,
): { readonly parts: WorkParts; readonly died: () => boolean } {
  let calls = 0;
  let dead = false;
  const mortal = <T extends object>(inner: T): T =>
    new Proxy(inner, {
      get(target, name): unknown {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== "function" || typeof name !== "string" || !(CHANGES.has(name) || OPENS.has(name)))
          return value;
        return async (...args: readonly unknown[]) => {
          if (CHANGES.has(name)) calls += 1;
          if (calls >= call) dead = true;
          if (dead) throw new Killed();
          const answer: unknown = await Reflect.apply(value, target, args);
          return OPENS.has(name) && isWorkspace(answer) ? mortal(answer) : answer;
        };
      },
    });
  const { store, workspaces } = parts;
  return {
    parts: { ...parts, store: mortal(store), workspaces: workspaces === null ? null : mortal(workspaces) },
    died: () => dead,
  };
}

const CHANGES: ReadonlySet<string> = new Set([
  "commit",
  "quarantine",
  "keep",
  "createBranch",
  "create",
  "snapshot",
  "applyRestore",
  "standOn",
]);
const OPENS: ReadonlySet<string> = new Set(["create", "find", "open"]);

function isWorkspace(answer: unknown): answer is object {
  return typeof answer === "object" && answer !== null && "applyRestore" in answer;
}

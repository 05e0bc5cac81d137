import type { Reflection } from "./iteration.ts";
import type { RalphOptions } from "./options.ts";

/** The window with one more reflection, which always stays; what goes is what the policy says (see MEMORY_POLICIES). Oldest first. */
export function remember(params: {
  readonly memory: readonly Reflection[];
  readonly next: Reflection;
  readonly options: RalphOptions["memory"];
}): readonly Reflection[] {
  const { memory, next, options } = params;
  const others = memory
    .filter((one) => one.iteration !== next.iteration)
    .map((one) => (sameFailure(one, next) ? { ...one, lastSeen: Math.max(one.lastSeen, next.iteration) } : one));
  const worth = worthOf(options.policy, next);
  const kept = others
    .toSorted((a, b) => worth(b) - worth(a) || b.iteration - a.iteration)
    .slice(0, options.capacity - 1);
  return [...kept, next].toSorted((a, b) => a.iteration - b.iteration);
}

function worthOf(policy: RalphOptions["memory"]["policy"], next: Reflection): (one: Reflection) => number {
  switch (policy) {
    case "fifo":
      return (one) => one.iteration;
    case "recency":
      return (one) => one.lastSeen;
    case "relevance_weighted":
      return (one) => relevance(one, next);
  }
}

/** The same failure says most; then what fails in both; then whether there is a lesson in it; age decides between equals. */
function relevance(one: Reflection, next: Reflection): number {
  const age = Math.max(0, next.iteration - one.iteration);
  return (
    (sameFailure(one, next) ? 4 : 0) +
    3 * overlap(one.failing, next.failing) +
    (one.learnings.length > 0 ? 1 : 0) +
    1 / (1 + age)
  );
}

function sameFailure(one: Reflection, next: Reflection): boolean {
  return one.signature !== null && one.signature === next.signature;
}

/** What both have, of what either has. */
function overlap(a: readonly string[], b: readonly string[]): number {
  const either = new Set([...a, ...b]).size;
  const second = new Set(b);
  return either === 0 ? 0 : [...new Set(a)].filter((name) => second.has(name)).length / either;
}

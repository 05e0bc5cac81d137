import type { CheckResult } from "../rollback/facts.ts";

/** What one check said, in its order. */
export interface CheckTrail {
  readonly name: string;
  readonly trail: readonly boolean[];
  readonly last: { readonly pass: boolean; readonly reason: string };
}

/**
 * By name. `checks`: oldest first. The same said of the same files again (by a step, and by the stage that it ended) is said once; another
 * verdict on the same files is told.
 */
export function checkTrails(
  checks: readonly Pick<CheckResult, "name" | "pass" | "reason" | "files">[],
): readonly CheckTrail[] {
  const trails = new Map<string, CheckTrail>();
  const judged = new Map<string, string>();
  for (const { name, pass, reason, files } of checks) {
    const before = trails.get(name)?.trail ?? [];
    const again = judged.get(name) === files && before.at(-1) === pass;
    judged.set(name, files);
    trails.set(name, { name, trail: again ? before : [...before, pass], last: { pass, reason } });
  }
  return [...trails.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** null: nothing was ever checked. */
export function allPass(checks: readonly CheckTrail[]): boolean | null {
  return checks.length === 0 ? null : checks.every(({ last }) => last.pass);
}

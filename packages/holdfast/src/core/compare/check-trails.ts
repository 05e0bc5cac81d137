import type { CheckResult } from "../rollback/facts.ts";

/** What one check said, in its order. */
export interface CheckTrail {
  readonly name: string;
  readonly trail: readonly boolean[];
  readonly last: { readonly pass: boolean; readonly reason: string };
}

/** By name. `checks`: oldest first. */
export function checkTrails(checks: readonly Pick<CheckResult, "name" | "pass" | "reason">[]): readonly CheckTrail[] {
  const trails = new Map<string, CheckTrail>();
  for (const { name, pass, reason } of checks) {
    const before = trails.get(name)?.trail ?? [];
    trails.set(name, { name, trail: [...before, pass], last: { pass, reason } });
  }
  return [...trails.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** null: nothing was ever checked. */
export function allPass(checks: readonly CheckTrail[]): boolean | null {
  return checks.length === 0 ? null : checks.every(({ last }) => last.pass);
}

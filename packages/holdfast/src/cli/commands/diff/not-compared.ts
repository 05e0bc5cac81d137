import type { HoldfastDiff } from "../../../app.ts";
import { leftOutOf } from "../../output/left-out.ts";
import type { LeftOut } from "../../output/left-out.ts";
import { inScope } from "../../path-scope.ts";

/** What a side was captured without and the diff does not show either: "no difference" says nothing about it. */
export function notCompared(diff: HoldfastDiff, typed: readonly string[]): readonly LeftOut[] {
  const paths = typed.length === 0 ? null : typed;
  const shown = new Set(diff.files?.files.map(({ path }) => path));
  const left = new Map<string, LeftOut>();
  for (const one of diff.leftOut.flatMap(leftOutOf)) {
    const path = one.path.replace(/\/$/, "");
    const asked = paths === null || inScope(path, paths) || paths.some((inner) => inScope(inner, [path]));
    if (asked && !shown.has(path)) left.set(one.path, one);
  }
  return [...left.values()];
}

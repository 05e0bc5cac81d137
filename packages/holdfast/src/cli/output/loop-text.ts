import type { LoopPicture } from "../../app.ts";
import type { Page } from "./page.ts";

type Verdict = LoopPicture["iterations"][number]["verdict"];
const MARKS: Readonly<Record<Verdict, string>> = { passed: "✓", failed: "✗", unchecked: "·", not_run: "?" };
const ASCII_MARKS: Readonly<Record<Verdict, string>> = { passed: "+", failed: "x", unchecked: ".", not_run: "?" };

/** One mark an iteration, the newest when there is no room: "✗✗✗✓". */
export function trailText({ iterations }: LoopPicture, page: Pick<Page, "ascii">, width: number): string {
  const marks = page.ascii === true ? ASCII_MARKS : MARKS;
  const shown = iterations.slice(-width).map(({ verdict }) => marks[verdict]);
  return (iterations.length > shown.length ? "…" : "") + shown.join("");
}

/** What the newest iteration measured: "2 of 10 tests fail, 1 error, quality 72"; null: nothing. */
export function metricsText({ iterations }: LoopPicture): string | null {
  const last = iterations.at(-1);
  if (last === undefined) return null;
  const { tests, errors, quality } = last;
  const all = tests === null ? 0 : tests.passed + tests.failed;
  const facts = [
    ...(tests === null ? [] : [tests.failed === 0 ? `all ${all} tests pass` : `${tests.failed} of ${all} tests fail`]),
    ...(errors === null ? [] : [errors === 1 ? "1 error" : `${errors} errors`]),
    ...(quality === null ? [] : [`quality ${Math.round(quality)}`]),
  ];
  return facts.length === 0 ? null : facts.join(", ");
}

export function bestText({ best }: LoopPicture): string | null {
  return best === null ? null : `iteration ${best.iteration}, quality ${Math.round(best.quality)}`;
}

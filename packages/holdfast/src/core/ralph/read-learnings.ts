import { oneLine } from "./clip.ts";

const MOST_LEARNINGS = 10;
const MOST_LEARNING = 300;
const MOST_TEXT = 200_000;

/**
 * What an agent says it has learnt: the lines of a fenced block named "learnings", or of the section under a heading "Learnings" (or "Lessons
 * learned"), one each; a line that only goes on with the one above belongs to it. Nothing else in an answer is taken for one.
 */
export function readLearnings(answer: string): readonly string[] {
  const found: string[] = [];
  let inside: Inside = { kind: "none" };
  for (const line of answer.slice(-MOST_TEXT).split("\n")) {
    const next = step(inside, line);
    if (next.kind !== "none" && inside.kind === next.kind) take(found, line);
    inside = next;
  }
  const learnings = found.map((text) => oneLine(text, MOST_LEARNING)).filter((text) => text !== "");
  return [...new Set(learnings)].slice(0, MOST_LEARNINGS);
}

type Inside =
  | { readonly kind: "none" }
  | { readonly kind: "fence"; readonly ticks: number }
  | { readonly kind: "section"; readonly level: number };

function step(inside: Inside, line: string): Inside {
  if (inside.kind === "fence") {
    const [, closing] = /^\s{0,3}(`{3,40})\s{0,10}$/.exec(line) ?? [];
    return closing !== undefined && closing.length >= inside.ticks ? { kind: "none" } : inside;
  }
  const [, ticks] = /^\s{0,3}(`{3,40})\s{0,3}learnings?\s{0,10}$/i.exec(line) ?? [];
  if (ticks !== undefined) return { kind: "fence", ticks: ticks.length };
  const [, marks, title = ""] = /^(#{1,6})\s{1,10}(.{1,200})$/.exec(line) ?? [];
  if (marks === undefined) return inside;
  if (/^(?:learnings?|lessons? learn(?:ed|t))\s{0,5}:?\s{0,10}$/i.test(title))
    return { kind: "section", level: marks.length };
  return inside.kind === "section" && marks.length > inside.level ? inside : { kind: "none" };
}

function take(found: string[], line: string): void {
  const text = line.slice(0, 2_000);
  const [, bullet] = /^\s{0,20}(?:[-*+•]|\d{1,3}[.)])\s{1,10}(.{1,2000})$/.exec(text) ?? [];
  if (bullet !== undefined || found.length === 0 || text.trim() === "" || found.at(-1) === "") {
    found.push(bullet ?? text.trim());
    return;
  }
  // The words of a bullet that was wrapped.
  const goesOn = /^\s{2,20}\S/.test(text);
  if (goesOn) found.push(`${found.pop() ?? ""} ${text.trim()}`);
  else found.push(text.trim());
}

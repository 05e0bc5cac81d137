import { oneLine } from "./clip.ts";

const MOST_LEARNINGS = 10;
const MOST_LEARNING = 300;
const MOST_TEXT = 200_000;

/**
 * What an agent says it has learnt, and the rest of what it says. Learnings are the lines of a fenced block named "learnings", or of the section
 * under a heading "Learnings" (or "Lessons learned"), one each; a line that only goes on with the bullet above belongs to it. Nothing else in
 * an answer is taken for one, least of all a heading in a block of code.
 */
export function readLearnings(answer: string): { readonly learnings: readonly string[]; readonly rest: string } {
  const found: string[] = [];
  const rest: string[] = [];
  let place: Place = OUTSIDE;
  for (const line of answer.slice(-MOST_TEXT).split("\n")) {
    const { next, mark } = step(place, line);
    if (isLearning(place) && !mark) take(found, line);
    // The heading that ends a section belongs to what follows; the line that closes a block to nothing.
    if (!isLearning(next) && place.fence?.learnings !== true) rest.push(line);
    place = next;
  }
  const learnings = found.map((text) => oneLine(text, MOST_LEARNING)).filter((text) => text !== "");
  return { learnings: [...new Set(learnings)].slice(0, MOST_LEARNINGS), rest: rest.join("\n").trim() };
}

interface Place {
  /** Level of the heading under which learnings stand. */
  readonly section: number | null;
  readonly fence: { readonly ticks: number; readonly learnings: boolean } | null;
}

const OUTSIDE: Place = { section: null, fence: null };

function isLearning({ section, fence }: Place): boolean {
  return section !== null || fence?.learnings === true;
}

/** Where the next line stands, and whether this one only says so. */
function step(place: Place, line: string): { readonly next: Place; readonly mark: boolean } {
  const [, ticks = "", name = ""] = /^\s{0,3}(`{3,40})\s{0,3}([^`]{0,40})$/.exec(line) ?? [];
  if (place.fence !== null) {
    const closed = ticks.length >= place.fence.ticks && name.trim() === "";
    return closed ? { next: { ...place, fence: null }, mark: true } : { next: place, mark: false };
  }
  if (ticks !== "") {
    const learnings = /^learnings?$/i.test(name.trim());
    return { next: { ...place, fence: { ticks: ticks.length, learnings } }, mark: true };
  }
  const [, marks, title = ""] = /^(#{1,6})\s{1,10}(.{1,200})$/.exec(line) ?? [];
  if (marks === undefined) return { next: place, mark: false };
  if (TITLE.test(title)) return { next: { section: marks.length, fence: null }, mark: true };
  const below = place.section !== null && marks.length > place.section;
  return { next: below ? place : OUTSIDE, mark: true };
}

const TITLE = /^(?:learnings?|lessons? learn(?:ed|t))\s{0,5}:?\s{0,10}$/i;

function take(found: string[], line: string): void {
  const text = line.slice(0, 2_000);
  const [, bullet] = /^\s{0,20}(?:[-*+•]|\d{1,3}[.)])\s{1,10}(.{1,2000})$/.exec(text) ?? [];
  // The words of a bullet that was wrapped.
  const goesOn = bullet === undefined && (found.at(-1) ?? "") !== "" && /^\s{2,20}\S/.test(text);
  if (goesOn) found.push(`${found.pop() ?? ""} ${text.trim()}`);
  else found.push(bullet ?? text.trim());
}

/** Asks at a terminal which parts of a restore to apply, one by one, as `git checkout -p` does. */
import type { FilePatch } from "@holdfast/core/workspace";
import type { Shell } from "./command.ts";
import { type Page, type Style, paint } from "./output/page.ts";
import { escapeText } from "./output/text.ts";

const HELP: Readonly<Record<string, string>> = {
  y: "apply this part",
  n: "do not apply this part",
  q: "stop: apply neither this part nor the rest",
  a: "apply this part and the rest of the file",
  d: "apply neither this part nor the rest of the file",
  "?": "print this help",
};

/** The chosen parts. Empty: the user chose none. */
export async function chooseHunks(
  shell: Pick<Shell, "ask" | "notify" | "talk">,
  patches: readonly FilePatch[],
): Promise<readonly FilePatch[]> {
  const total = patches.reduce((sum, { hunks }) => sum + hunks.length, 0);
  const chosen: FilePatch[] = [];
  let seen = 0;
  for (const patch of patches) {
    const taken: string[] = [];
    let rest: "ask" | "a" | "d" | "q" = "ask";
    for (const [at, hunk] of patch.hunks.entries()) {
      seen += 1;
      if (rest === "a") taken.push(hunk);
      if (rest !== "ask") continue;
      shell.notify(hunkText(`${at === 0 ? patch.header : ""}${hunk}`, shell.talk));
      const answer = await askOne(shell, `(${seen}/${total}) Apply this part to the worktree [y,n,q,a,d,?]?`);
      if (answer === "y" || answer === "a") taken.push(hunk);
      if (answer === "a" || answer === "d" || answer === "q") rest = answer;
    }
    if (taken.length > 0) chosen.push({ ...patch, hunks: taken });
    if (rest === "q") break;
  }
  return chosen;
}

async function askOne(shell: Pick<Shell, "ask" | "notify">, question: string): Promise<string> {
  for (;;) {
    const answer = (await shell.ask(question, "?")).trim().toLowerCase();
    if (answer !== "?" && Object.hasOwn(HELP, answer)) return answer;
    shell.notify(
      Object.entries(HELP)
        .map(([key, about]) => `${key} - ${about}\n`)
        .join(""),
    );
  }
}

const STYLES: Readonly<Record<string, Style>> = { "+": "green", "-": "red", "@": "dim" };

/** The file may hold anything, so each line is escaped. A long part, such as a binary file, is cut. */
function hunkText(patch: string, page: Page): string {
  const lines = Buffer.from(patch, "latin1").toString("utf8").split("\n").slice(0, -1);
  const shown = lines.slice(0, SHOWN).map((line) => {
    const style = STYLES[line[0] ?? ""];
    const text = escapeText(line);
    return style === undefined ? `${text}\n` : `${paint(page, style, text)}\n`;
  });
  const more = lines.length - shown.length;
  return shown.join("") + (more > 0 ? `… and ${more} more lines\n` : "");
}

const SHOWN = 200;

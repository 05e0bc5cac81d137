import type { CodeChange, FileLines } from "./compared-run.ts";

type ChangedFile = Pick<FileLines, "path" | "status" | "from">;

/** `counts`: a line a file, in the order of the files, each beginning with lines added and removed (`-`: binary) and a tab. */
export function countLines(files: readonly ChangedFile[], counts: string): CodeChange {
  const lines = counts.split("\n").filter((line) => line !== "");
  const changed = files.map(({ path, status, from }, at): FileLines => {
    const [added = "", removed = ""] = (lines[at] ?? "").split("\t");
    return { path, status, from, added: numberOf(added), removed: numberOf(removed) };
  });
  const sum = (pick: (file: FileLines) => number | null): number =>
    changed.reduce((total, file) => total + (pick(file) ?? 0), 0);
  return { files: changed.length, added: sum(({ added }) => added), removed: sum(({ removed }) => removed), changed };
}

function numberOf(text: string): number | null {
  return /^\d+$/.test(text) ? Number(text) : null;
}

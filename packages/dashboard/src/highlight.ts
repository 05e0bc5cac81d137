// Colours for source code. Loaded when the first diff is shown.
import * as languages from "@speed-highlight/core/languages";
import { type ShjLanguageData, tokenizeWith } from "@speed-highlight/core/tokenize";
import type { DiffRow } from "./diff-rows.ts";

const BY_ENDING: Readonly<Record<string, string>> = {
  cjs: "js",
  mjs: "js",
  jsx: "js",
  ts: "ts",
  tsx: "ts",
  mts: "ts",
  cts: "ts",
  h: "c",
  cc: "c",
  cpp: "c",
  hpp: "c",
  sh: "bash",
  zsh: "bash",
  markdown: "md",
  htm: "html",
  svg: "xml",
  vue: "html",
  yml: "yaml",
  rs: "rs",
  py: "py",
  pl: "pl",
  dockerfile: "docker",
  makefile: "make",
  scss: "css",
  less: "css",
  jsonc: "json",
  cfg: "ini",
  conf: "ini",
};

export interface Piece {
  readonly text: string;
  readonly kind: string;
}

function languageOf(path: string): string | null {
  const name = path.split("/").at(-1)?.toLowerCase() ?? "";
  const ending = name.slice(name.lastIndexOf(".") + 1);
  const language = BY_ENDING[ending] ?? ending;
  return Object.hasOwn(languages, language) ? language : null;
}

/** More text than this is shown without colours. */
const MOST = 400_000;

/** The tokens of each row; null: the language is not known. A hunk is read as two texts, the old and the new one. */
export function highlight(path: string, rows: readonly DiffRow[]): ReadonlyMap<DiffRow, readonly Piece[]> | null {
  const language = languageOf(path);
  if (language === null || rows.reduce((sum, { text }) => sum + text.length, 0) > MOST) return null;
  const tokens = new Map<DiffRow, readonly Piece[]>();
  let hunk: DiffRow[] = [];
  const flush = (): void => {
    for (const side of ["removed", "added"] as const) {
      const lines = hunk.filter(({ kind }) => kind === "same" || kind === side);
      const colored = tokensOf(lines.map(({ text }) => text).join("\n"), language);
      lines.forEach((row, index) => tokens.set(row, colored[index] ?? []));
    }
    hunk = [];
  };
  for (const row of rows) {
    if (row.kind === "hunk") flush();
    else hunk.push(row);
  }
  flush();
  return tokens;
}

function tokensOf(text: string, language: string): readonly (readonly Piece[])[] {
  const lines: Piece[][] = [[]];
  // The library's own languages: its types only differ in how they write an absent field.
  const known = languages as unknown as Readonly<Record<string, ShjLanguageData>>;
  tokenizeWith(
    text,
    language,
    (found, kind = undefined) => {
      found.split("\n").forEach((part, index) => {
        if (index > 0) lines.push([]);
        if (part !== "") lines.at(-1)?.push({ text: part, kind: kind ?? "" });
      });
    },
    { languages: known },
  );
  return lines;
}

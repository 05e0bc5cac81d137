import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Visitor, parseSync } from "vite";
import { describe, expect, test } from "vitest";
import { ERROR_CODES } from "@holdfast/platform/error";
import { EXITS, EXIT_OF } from "../src/cli/exit.ts";
import { PREFLIGHT } from "../src/preflight.ts";
import { FINDING_KINDS, defaultFindingPolicy } from "@holdfast/core/findings";
import { defaultRetention } from "@holdfast/core/retention";
import { STATUS_KINDS } from "@holdfast/core/status";
import { TRIGGERS } from "@holdfast/core/checkpoint";

/** docs/errors.md and docs/glossary.md must match the code. */

const ROOT = join(import.meta.dirname, "../../..");
const errors = await tables("docs/errors.md");
const glossary = await tables("docs/glossary.md");

describe("docs/errors.md", () => {
  test("has a row for every code, in the order of the code, and no other", () => {
    expect(errors.get("code")?.map((row) => row["code"])).toEqual(ERROR_CODES.map((code) => `\`${code}\``));
  });

  test("has no code that Holdfast never reports", async () => {
    const sources = (await readdir(join(ROOT, "packages"), { recursive: true })).filter(
      (path) =>
        /^[^/]+\/src\/.*\.ts$/.test(path) && !/\.test\.ts$|^(?:testing|test-support)\/|src\/error\.ts$/.test(path),
    );
    const code = (await Promise.all(sources.map((path) => readFile(join(ROOT, "packages", path), "utf8")))).join("\n");
    expect(ERROR_CODES.filter((one) => !code.includes(`"${one}"`))).toEqual([]);
  });

  test("documents meaning, remedy and exit status of every code", () => {
    const offenders = (errors.get("code") ?? []).flatMap((row) => {
      const code = ERROR_CODES.find((one) => `\`${one}\`` === row["code"]);
      const status = code === undefined ? "no known code" : String(EXITS[EXIT_OF[code]].status);
      return [
        ...(row["exit"] === status ? [] : [`${row["code"]}: exit is ${row["exit"]}, the code has ${status}`]),
        ...(row["meaning"]?.endsWith(".") ? [] : [`${row["code"]}: the meaning is not a sentence`]),
        ...(row["what to do"]?.endsWith(".") ? [] : [`${row["code"]}: the remedy is not a sentence`]),
      ];
    });
    expect(offenders).toEqual([]);
  });

  test("has every mistake of the preflight, and those that are found before it", () => {
    const before = [
      { mistake: "the config file cannot be read", level: "error", code: "CONFIG_INVALID" },
      { mistake: "git is missing or too old", level: "error", code: "GIT_MISSING" },
      { mistake: "a run of this work exists", level: "error", code: "NEEDS_DECISION" },
    ] as const;
    const rows = [...PREFLIGHT, ...before].map(({ mistake, level, code }) => ({
      mistake,
      result: level,
      code: code === null ? "" : `\`${code}\``,
      // `run` can wait for space.
      exit: code === null ? "" : String(EXITS[code === "DISK_FULL" ? "waiting" : EXIT_OF[code]].status),
    }));
    expect(errors.get("mistake")).toEqual(rows);
  });

  test("has every exit status", () => {
    const rows = Object.entries(EXITS).map(([name, { status, about }]) => ({
      status: String(status),
      name,
      meaning: about,
    }));
    expect(errors.get("status")).toEqual(rows);
  });
});

describe("docs/glossary.md", () => {
  test("has every trigger with what the default policy keeps", () => {
    const rows = TRIGGERS.map((trigger) => {
      const { keep, per } = defaultRetention.perTrigger[trigger] ?? defaultRetention.defaultKeep;
      return { trigger, kept: `${keep} per ${per}` };
    });
    expect(glossary.get("trigger")?.map(({ trigger, kept }) => ({ trigger, kept }))).toEqual(rows);
  });

  test("has every finding with its default verdict", () => {
    const rows = FINDING_KINDS.map((finding) => ({ finding, verdict: defaultFindingPolicy[finding] }));
    expect(glossary.get("finding")?.map(({ finding, verdict }) => ({ finding, verdict }))).toEqual(rows);
  });

  test("has every status", () => {
    expect(glossary.get("status")?.map((row) => row["status"])).toEqual(STATUS_KINDS);
  });

  test("explains the terms of the documentation, each once", () => {
    const words = glossary.get("word")?.map((row) => row["word"]) ?? [];
    expect(new Set(words).size).toBe(words.length);
    const nouns =
      "run workflow stage step effect journal entry lease epoch fencing checkpoint snapshot restore fork tag trigger retention tombstone quarantine worktree forge agent budget gate iteration replay divergence slot heartbeat finding plan store plane position context graph loop signal status verdict";
    const missing = nouns.split(" ").filter((noun) => !words.includes(noun));
    expect(missing).toEqual([]);
  });

  test("explains every word, and at most 40", () => {
    const words = glossary.get("word") ?? [];
    expect(words.length).toBeGreaterThan(20);
    expect(words.length).toBeLessThanOrEqual(40);
    const offenders = words.filter((row) => (row["meaning"] ?? "").length < 10).map((row) => row["word"]);
    expect(offenders).toEqual([]);
  });
});

test("the engine and the adapters say stage; phase is a word of crunch", async () => {
  const src = join(ROOT, "packages");
  const files = (await readdir(src, { recursive: true })).filter((file) =>
    /^(?:core|git|agents|forges|platform)\/src\/.*\.ts$/.test(file),
  );
  const offenders: string[] = [];
  for (const file of files) {
    const code = (await readFile(join(src, file), "utf8"))
      .replaceAll(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, "")
      .replaceAll(/"(?:[^"\\\n]|\\.)*"/g, "");
    if (/phase/i.test(code)) offenders.push(file);
  }
  expect(offenders).toEqual([]);
});

/** Words that a reader cannot look up. The plain ones are: resume, continue, atomically, repair, apply, diverged, failed, orphan, report. */
const OLD_WORDS =
  /\b(?:goes on|gone on|taken up|takes up|carried on|carries on|as one act|whoever|nobody|somebody|who works|put right|mend|mends|mended|heed|parted|parked|unparked|given up|aside|asides|tidings|litter|is told|was told)\b/i;

test("no page and no comment uses an old word", async () => {
  const pages = (await readdir(join(ROOT, "docs"))).filter((name) => name !== "cli.md").map((name) => `docs/${name}`);
  const prose = [...pages, "README.md", "ARCHITECTURE.md", "AGENTS.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(
    async (path) => {
      const text = await readFile(join(ROOT, path), "utf8");
      return { path, text: text.replaceAll(/^```[^]*?^```/gm, "") };
    },
  );
  const sources = (await readdir(join(ROOT, "packages"), { recursive: true }))
    .filter((path) => /^[^/]+\/(?:src|test)\/.*\.tsx?$/.test(path) && !path.endsWith("vocabulary.test.ts"))
    .map(async (path) => ({ path, text: commentsOf(await readFile(join(ROOT, "packages", path), "utf8")) }));
  const offenders = (await Promise.all([...prose, ...sources])).flatMap(({ path, text }) => {
    // Names of files, flags and keys stand in backquotes and stay.
    const found = OLD_WORDS.exec(text.replaceAll(/`[^`\n]*`|\S*\/\S*/g, ""));
    return found === null ? [] : [`${path}: ${found[0]}`];
  });
  expect(offenders).toEqual([]);
});

test("no message, hint, question, help text or title of a test uses an old word", async () => {
  const sources = (await readdir(join(ROOT, "packages"), { recursive: true })).filter(
    (path) => /^[^/]+\/(?:src|test)\/.*\.tsx?$/.test(path) && !path.endsWith("vocabulary.test.ts"),
  );
  const offenders: string[] = [];
  for (const path of sources) {
    const code = await readFile(join(ROOT, "packages", path), "utf8");
    // Parsing is slow: a file without an old word has none in its texts.
    if (!OLD_WORDS.test(code)) continue;
    for (const text of textsOf(code, path)) {
      // Names of functions and files stand in backquotes and stay.
      const found = OLD_WORDS.exec(text.replaceAll(/`[^`\n]*`/g, ""));
      if (found !== null) offenders.push(`${path}: ${found[0]} in ${JSON.stringify(text.slice(0, 100))}`);
    }
  }
  expect(sources.length).toBeGreaterThan(100);
  expect(offenders).toEqual([]);
});

test("a text is found in literals and templates; names of one word and comments are not texts", () => {
  const code = "const a = 'is told x'; // put right\nconst b = `${a} goes ${a} on`; const c = 'aside';";
  expect(textsOf(code)).toEqual(["is told x", " goes  on"]);
  expect(textsOf("const a = <p>is told</p>;", "a.tsx")).toEqual(["is told"]);
});

/** The texts of more than one word: string literals, the text of elements, and the fixed parts of templates. */
function textsOf(code: string, path = "code.ts"): readonly string[] {
  const texts: string[] = [];
  const visitor = new Visitor({
    Literal(node) {
      if (typeof node.value === "string") texts.push(node.value);
    },
    TemplateLiteral(node) {
      texts.push(node.quasis.map(({ value }) => value.cooked ?? "").join(""));
    },
    JSXText(node) {
      texts.push(node.value);
    },
  });
  visitor.visit(parseSync(path, code).program);
  return texts.filter((text) => /\S\s+\S/.test(text));
}

test("a comment is found, and a text that looks like one is not", () => {
  const code = 'const a = "// nobody"; // one\n/* two */ const b = `/* somebody */`; /** three */';
  expect(commentsOf(code)).toBe("// one\n/* two */\n/** three */");
});

function commentsOf(code: string): string {
  const pieces =
    code.match(/"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`|\/\*[^]*?\*\/|\/\/[^\n]*/g) ?? [];
  return pieces.filter((piece) => piece.startsWith("/")).join("\n");
}

/** Every table of a document, by the heading of its first column. */
async function tables(path: string): Promise<ReadonlyMap<string, readonly Readonly<Record<string, string>>[]>> {
  const lines = (await readFile(join(ROOT, path), "utf8")).split("\n");
  const found = new Map<string, Record<string, string>[]>();
  let heads: readonly string[] = [];
  for (const line of lines) {
    if (!line.startsWith("|")) {
      heads = [];
      continue;
    }
    const cells = line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim());
    if (heads.length === 0) {
      heads = cells;
      found.set(heads[0] ?? "", []);
    } else if (!/^-+$/.test(cells[0] ?? "")) {
      const row = Object.fromEntries(heads.map((head, index) => [head, cells[index] ?? ""]));
      found.get(heads[0] ?? "")?.push(row);
    }
  }
  return found;
}

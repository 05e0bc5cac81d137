import type { Reading } from "./reading.ts";

/** What compilers and linters complain of. Where a tool both lists and adds up, only one of the two is counted. */
export function readDiagnostics(lines: readonly string[]): readonly Reading[] {
  const tsc = readTsc(lines);
  const readings = [
    tsc,
    readEslint(lines),
    readRustc(lines),
    readCounted(lines),
    tsc === null ? readFound(lines) : null,
  ];
  return readings.filter((reading) => reading !== null);
}

/** "src/a.ts(1,2): error TS2322: …" and "src/a.ts:1:2 - error TS2322: …". Named by file and code: lines move. */
function readTsc(lines: readonly string[]): Reading | null {
  const failing = lines.flatMap((line) => {
    const [, file = "", code = ""] =
      /^(?:([^\s(:][^(:]{0,300})(?:\(\d{1,9},\d{1,9}\): |:\d{1,9}:\d{1,9} - ))?error (TS\d{1,6}): /.exec(line) ?? [];
    return code === "" ? [] : [file === "" ? code : `${file}: ${code}`];
  });
  return failing.length === 0 ? null : diagnostics("tsc", { errors: failing.length, warnings: null, failing });
}

/** "✖ 3 problems (2 errors, 1 warning)". */
function readEslint(lines: readonly string[]): Reading | null {
  return added("eslint", lines, /^✖ \d{1,9} problems? \((\d{1,9}) errors?, (\d{1,9}) warnings?\)/);
}

/** "Found 2 warnings and 1 error." (oxlint). */
function readCounted(lines: readonly string[]): Reading | null {
  const reading = added("oxlint", lines, /^Found (\d{1,9}) warnings? and (\d{1,9}) errors?\.$/);
  return reading === null ? null : { ...reading, errors: reading.warnings, warnings: reading.errors };
}

/** "Found 3 errors in 1 file (checked 2 source files)": mypy, ruff, biome. */
function readFound(lines: readonly string[]): Reading | null {
  return added("errors found", lines, /^Found (\d{1,9}) errors?(?: in \d{1,9} files?\b.{0,100}|\.)$/);
}

function readRustc(lines: readonly string[]): Reading | null {
  const errors = lines.filter((line) =>
    /^error(?:\[E\d{1,6}\])?: (?!could not compile|aborting due|test failed)/.test(line),
  );
  // Other tools begin lines with "error:" too; only a code or the closing line makes it this one.
  const known = lines.some((line) => /^error(?:\[E\d{1,6}\]: |: could not compile )/.test(line));
  if (!known) return null;
  return diagnostics("rustc", { errors: errors.length, warnings: null, failing: [] });
}

/** The first group is errors, the second, where there is one, warnings; several lines add up. */
function added(reader: string, lines: readonly string[], pattern: RegExp): Reading | null {
  const found = lines.flatMap((line) => {
    const groups = pattern.exec(line);
    return groups === null ? [] : [{ errors: Number(groups[1]), warnings: groups[2] }];
  });
  if (found.length === 0) return null;
  const errors = found.reduce((sum, one) => sum + one.errors, 0);
  const told = found.some((one) => one.warnings !== undefined);
  const warnings = told ? found.reduce((sum, one) => sum + Number(one.warnings ?? 0), 0) : null;
  return diagnostics(reader, { errors, warnings, failing: [] });
}

function diagnostics(reader: string, params: Pick<Reading, "errors" | "warnings" | "failing">): Reading {
  return { reader, tests: null, ...params };
}

/** The `format export` command: writes a checkpoint in the format of another tool. */
import { resolve } from "node:path";
import type { Encoded, ExternalCheckpoint, Loss, Remark } from "@holdfast/formats/format";
import { EXPORT_NAMES, type ExportName, FORMAT_NAMES } from "@holdfast/formats/format-names";
import { type HoldfastError, usageError } from "@holdfast/platform/error";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { countText } from "../output/quantities.ts";
import { escapeText, wrap } from "../output/text.ts";

/** The output flags that `writeExported` reads. */
export const OUTPUT_FLAGS = {
  output: {
    type: "text",
    short: "o",
    value: "PATH",
    about: "a file, or a directory (an existing one, or with a slash at its end); default stdout",
    completes: "file",
  },
  "dry-run": { type: "boolean", about: "only show which fields the format cannot represent" },
} as const satisfies CommandSpec["flags"];

export const spec = {
  name: "format export",
  summary: "hand a run over to another tool",
  details: [
    "Prints the document, or writes it atomically to --output. Fields that the format cannot represent are listed on stderr. In a directory the file gets the name that the other tool expects; for crunch-yaml also its index and `latest` (a link, or a file with the name if links are not supported), by the rules of `.claude/checkpoint-config.yaml`.",
    "For context-store, RUN without @ exports all checkpoints as one list of versions; into a directory, one file each. Every other format gets the newest.",
    "`--to run` writes the whole run to one file: journal, checkpoints, git objects and logs. `holdfast format import` on another machine imports it, and `holdfast resume` continues it there. It refuses to write secrets, unless you pass --with-secrets.",
    "`--to html` writes the story of a run as one page without scripts, to print or to send: the report that `holdfast ui` shows. It holds what the store holds, with secrets masked.",
    "An imported checkpoint keeps the fields that Holdfast does not know. An export to its original format contains them again.",
  ],
  operands: [{ name: "ADDRESS", about: "RUN, RUN@7, RUN@latest, RUN@tag", required: true, completes: "address" }],
  consent: "reads",
  flags: {
    to: { type: "text", value: "FORMAT", about: "the target format", choices: [...EXPORT_NAMES, "run", "html"] },
    "with-secrets": { type: "boolean", about: "with --to run: write the file although it holds secrets" },
    ...OUTPUT_FLAGS,
  },
  examples: [
    {
      line: "holdfast format export issue-42 --to impl-json -o impl-checkpoint.json",
      about: "write a file for another tool",
    },
    {
      line: "holdfast format export issue-42@7 --to crunch-yaml -o checkpoints/",
      about: "write it with index and latest",
    },
    {
      line: "holdfast format export issue-42 --to atif > trajectory.json",
      about: "write what its agents did as a trajectory",
    },
    { line: "holdfast format export issue-42 --to run -o issue-42.run", about: "take the run to another machine" },
    { line: "holdfast format export issue-42 --to html -o issue-42.html", about: "write its story as one page" },
  ],
  reads: true,
  json: '{"from", "to", "path": "suggested place", "written": [paths], "removed": [paths], "losses": [{"path", "why"}], "document": "text"}; "document" is null when it was written to --output. With --to run: {"run", "to", "written": [path], "bytes", "entries", "checkpoints", "prerequisites": [commits], "secrets": [{"where", "kind"}], "unsearched", "unsaved"}. With --to html: {"run", "to", "written": [path], "bytes", "document": "text" or null}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const named = input.text("to");
  if (named === undefined) throw missingFormatError(EXPORT_NAMES);
  const holdfast = await shell.open({ create: false });
  if (named === "run") {
    const { exportRunFile } = await import("./format-run.ts");
    const [output, withSecrets, dryRun] = [input.text("output"), input.on("with-secrets"), input.on("dry-run")];
    return await exportRunFile(shell, holdfast, { address: input.operand(0) ?? "", output, withSecrets, dryRun });
  }
  if (named === "html") {
    const { exportReport } = await import("./format-html.ts");
    const [output, dryRun] = [input.text("output"), input.on("dry-run")];
    return await exportReport(shell, holdfast, { address: input.operand(0) ?? "", output, dryRun });
  }
  if (input.on("with-secrets")) throw usageError("--with-secrets belongs to --to run", "Leave it out.");
  const address = await holdfast.resolve(input.operand(0) ?? "");
  const where = { output: input.text("output"), dryRun: input.on("dry-run") };
  const to = FORMAT_NAMES.find((name) => name === named);
  if (to === undefined) {
    const transcript = await holdfast.formats.transcript(address.run);
    return await writeExported(shell, { from: address.run, to: "atif", external: [], encoded: [transcript] }, where);
  }
  const all = to === "context-store" && !(input.operand(0) ?? "").includes("@");
  const checkpoints = all
    ? await holdfast.formats.encodeAll(address.run, to)
    : [await holdfast.formats.encode(address, to)];
  const external = checkpoints.map((one) => one.external);
  const encoded = checkpoints.map((one) => one.encoded);
  return await writeExported(shell, { from: all ? address.run : address.id, to, external, encoded }, where);
}

interface Outgoing {
  /** An address or a format. */
  readonly from: string;
  readonly to: ExportName;
  readonly external: readonly ExternalCheckpoint[];
  readonly encoded: readonly Encoded[];
  readonly remarks?: readonly Remark[];
}

/** Writes documents to stdout or to --output, and reports to stderr what they could not represent. */
export async function writeExported(
  shell: Shell,
  outgoing: Outgoing,
  params: { readonly output: string | undefined; readonly dryRun: boolean },
): Promise<Exit> {
  const { from, to, remarks } = outgoing;
  const { isExistingDirectory, joinDocuments, writeExport } = await import("../../interop/export.ts");
  const place = params.output;
  const directory = place !== undefined && (/[/\\]$/.test(place) || isExistingDirectory(resolve(shell.cwd, place)));
  const encoded = directory ? outgoing.encoded : joinDocuments(to, outgoing.encoded);
  const [only] = encoded;
  if (only === undefined || (encoded.length > 1 && place === undefined && !params.dryRun))
    throw usageError(
      `There are ${encoded.length} checkpoints, and each becomes one document`,
      "Name a directory: --output DIRECTORY/.",
    );
  const { paths, removed, losses } =
    place === undefined || params.dryRun
      ? { paths: [], removed: [], losses: uniqueLosses(encoded) }
      : await writeExport({
          to,
          external: outgoing.external,
          encoded,
          output: resolve(shell.cwd, place),
          directory,
        });
  const document = place === undefined && !params.dryRun ? new TextDecoder().decode(only.bytes) : null;
  shell.print({
    json: () => ({
      from,
      to,
      path: only.path,
      written: paths,
      removed,
      losses,
      ...(remarks === undefined ? {} : { remarks }),
      document,
    }),
    ...(document === null ? {} : { content: true as const }),
    text: () => document ?? summary({ place, written: paths, removed, dryRun: params.dryRun, path: only.path }),
  });
  shell.notify(unsupportedFieldsText(to, losses, shell.talk.width));
  return "done";
}

function summary(shown: {
  readonly place: string | undefined;
  readonly written: readonly string[];
  readonly removed: readonly string[];
  readonly dryRun: boolean;
  readonly path: string;
}): string {
  if (shown.dryRun) return `Would write ${escapeText(shown.place ?? shown.path)}\n`;
  const { written, removed } = shown;
  if (written.length === 0 && removed.length === 0) return "Up to date: nothing was written.\n";
  const lines = [...written.map((path) => `Wrote ${path}`), ...removed.map((path) => `Removed ${path}`)];
  return lines.map((line) => `${escapeText(line)}\n`).join("");
}

function uniqueLosses(encoded: readonly Encoded[]): readonly Loss[] {
  const all = encoded.flatMap(({ losses }) => losses);
  return [...new Map(all.map((loss) => [`${loss.path}\n${loss.why}`, loss])).values()];
}

/** USAGE: the user named no format. */
export function missingFormatError(names: readonly string[]): HoldfastError {
  return usageError("No target format is given", `Add --to with one of: ${names.join(", ")}.`);
}

/** Lists what a format could not represent, grouped by reason; "" if it represented everything. */
export function unsupportedFieldsText(
  to: string,
  losses: readonly { readonly path: string; readonly why: string }[],
  width: number,
): string {
  if (losses.length === 0) return "";
  const reasons = new Map<string, string[]>();
  for (const { path, why } of losses) reasons.set(why, [...(reasons.get(why) ?? []), path]);
  const lines = [...reasons].flatMap(([why, paths]) => {
    const [first = "", ...rest] = wrap(escapeText(`${paths.join(", ")}: ${why}`), Math.min(width, 100) - 4);
    return [`  ${first}`, ...rest.map((line) => `    ${line}`)];
  });
  return `${to} cannot represent ${countText(losses.length, "field")}:\n${lines.join("\n")}\n`;
}

import { resolve } from "node:path";
import type { Encoded, ForeignCheckpoint, Loss, Remark } from "../../../app.ts";
import type { ExportName } from "../../../core/format-names.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Shell } from "../../command.ts";
import { escapeText } from "../../output/escape-text.ts";
import { lossesText } from "../../output/losses-text.ts";

export interface Outgoing {
  /** An address or a format. */
  readonly from: string;
  readonly to: ExportName;
  readonly foreign: readonly ForeignCheckpoint[];
  readonly encoded: readonly Encoded[];
  readonly remarks?: readonly Remark[];
}

/** Documents to stdout or to --output, and what they could not carry to stderr. */
export async function writeOut(
  shell: Shell,
  outgoing: Outgoing,
  params: { readonly output: string | undefined; readonly dryRun: boolean },
): Promise<Exit> {
  const { from, to, encoded, remarks } = outgoing;
  const { writeExport } = await import("../../../app/foreign/export-checkpoint.ts");
  const [only] = encoded;
  const place = params.output;
  if (only === undefined || (encoded.length > 1 && place === undefined && !params.dryRun))
    throw severalDocuments(encoded.length);
  const { paths, removed, losses } =
    place === undefined || params.dryRun
      ? { paths: [], removed: [], losses: uniqueLosses(encoded) }
      : writeExport({
          to,
          foreign: outgoing.foreign,
          encoded,
          output: resolve(shell.cwd, place),
          directory: /[/\\]$/.test(place),
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
  shell.say(lossesText(to, losses, shell.talk.width));
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

function severalDocuments(count: number): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `There are ${count} checkpoints, each of which becomes a document of its own`,
    hint: "Name a directory for them with --output DIRECTORY/.",
  });
}

/**
 * Reads checkpoint files of other tools: decodes them into histories, validates them, and converts them between
 * formats.
 */
import { type Json, isJsonObject } from "@holdfast/core/json";
import { readCrunchDirectory } from "@holdfast/formats/crunch-directory";
import { sameJson } from "@holdfast/formats/document";
import type { Encoded, ExternalCheckpoint, ExternalFile, FormatName, Remark } from "@holdfast/formats/format";
import { LOOP_EXTENSION } from "@holdfast/formats/loop-json";
import { chooseFormat, detectFormat, findFormat } from "@holdfast/formats/registry";
import { type SourceFiles, readSourceFiles } from "@holdfast/formats/source-files";
import { readJson } from "@holdfast/formats/strict-json";
import { type ErrorCode, HoldfastError, usageError } from "@holdfast/platform/error";
import { isRunFile } from "./run-file.ts";

export interface DecodedSources {
  readonly format: FormatName;
  /** Oldest first. */
  readonly checkpoints: readonly ExternalCheckpoint[];
  readonly remarks: readonly Remark[];
  /** Files of a directory that could not be read. They are always reported, never skipped silently. */
  readonly broken: readonly { readonly name: string; readonly error: HoldfastError }[];
}

/** Decodes all sources as one history. Throws USAGE if they are not one. */
function decodeSources(sources: readonly SourceFiles[], named: FormatName | undefined): DecodedSources {
  const histories = decodeHistories(sources, named);
  const [only] = histories;
  if (only !== undefined && histories.length === 1) return only;
  throw notOneHistory(`${histories.length} loops`);
}

/**
 * Decodes sources that may hold several loops, as one history for each loop. Unreadable files are reported with the
 * first history. Files of other formats must belong to one piece of work.
 */
export function decodeHistories(
  sources: readonly SourceFiles[],
  named: FormatName | undefined,
): readonly DecodedSources[] {
  const parts = sources.map((source) => decodeSource(source, named));
  const [first] = parts;
  if (first === undefined) throw usageError("No file was named");
  for (const part of parts) {
    if (part.format !== first.format) throw notOneHistory(`${first.format} and ${part.format}`);
  }
  const { format } = first;
  const works = new Map<string, ExternalCheckpoint[]>();
  for (const checkpoint of parts.flatMap((part) => part.checkpoints)) {
    const key = historyOf(checkpoint);
    const known = works.get(key);
    if (known === undefined) works.set(key, [checkpoint]);
    // A checkpoint may be in two files: an interrupted mirror can leave a document at both its main and its alternative
    // path.
    else if (!known.some((other) => isSame(other, checkpoint))) known.push(checkpoint);
  }
  if (works.size > 1 && format !== "loop-json") throw notOneHistory(`${works.size} pieces of work`);
  const remarks = parts.flatMap((part) => part.remarks);
  return [...works].map(([key, checkpoints], at) => ({
    format,
    checkpoints: inOrder(checkpoints),
    // Remarks about files that belong to no loop go to the first history.
    remarks: remarks
      .filter(({ of }) => of === key || (at === 0 && of === undefined))
      .map(({ path, text }) => ({ path, text })),
    broken: at === 0 ? parts.flatMap((part) => part.broken) : [],
  }));
}

/** Loops have no issue and no task, so their ids distinguish them. */
function historyOf(checkpoint: ExternalCheckpoint): string {
  const { workflow, work } = checkpoint;
  return JSON.stringify([workflow, work, loopOf(checkpoint) ?? null]);
}

export function loopOf(
  checkpoint: ExternalCheckpoint | undefined,
): { readonly workflow: string; readonly loop: string | null } | undefined {
  const extension = checkpoint?.planes.extensions[LOOP_EXTENSION];
  if (!isJsonObject(extension)) return undefined;
  const { workflow_id: workflow, loop_id: loop } = extension;
  return { workflow: String(workflow), loop: typeof loop === "string" ? loop : null };
}

function isSame(one: ExternalCheckpoint, other: ExternalCheckpoint): boolean {
  return one.id === other.id && one.id !== null && sameJson(one.original?.document, other.original?.document);
}

/** Sorted by time if every checkpoint has one. Equal times keep the given order, and so does a list with a missing time. */
function inOrder(checkpoints: readonly ExternalCheckpoint[]): readonly ExternalCheckpoint[] {
  if (checkpoints.some(({ createdAt }) => createdAt === null)) return checkpoints;
  return checkpoints.toSorted((a, b) => Date.parse(a.createdAt ?? "") - Date.parse(b.createdAt ?? ""));
}

interface DecodedSource extends DecodedSources {
  /** `of`: the history that the file belongs to; absent if it belongs to none, or to the only one. */
  readonly remarks: readonly (Remark & { readonly of?: string | undefined })[];
}

function decodeSource(source: SourceFiles, named: FormatName | undefined): DecodedSource {
  if (source.kind === "file") {
    const format = chooseFormat(source.file, named);
    const { checkpoints, remarks } = format.decode(source.file);
    const { attach, broken } = readLoopFiles(source, format.name);
    return { format: format.name, checkpoints: checkpoints.map(attach), remarks, broken };
  }
  const format = formatOfDirectory(source, named);
  if (format === "crunch-yaml") return decodeCrunch(source);
  const codec = findFormat(format);
  const read = {
    checkpoints: [] as ExternalCheckpoint[],
    remarks: [] as DecodedSource["remarks"][number][],
    broken: [...source.broken],
  };
  const { attach, broken } = readLoopFiles(source, format);
  read.broken.push(...broken);
  for (const file of source.files) {
    if (named === undefined && codec.detect(file).match === "no") {
      read.remarks.push({ path: nameOf(file), text: `is not ${format}: ignored` });
      continue;
    }
    try {
      const { checkpoints, remarks } = codec.decode(file);
      read.checkpoints.push(...checkpoints.map(attach));
      const of = checkpoints[0] === undefined ? undefined : historyOf(checkpoints[0]);
      read.remarks.push(...remarks.map((remark) => ({ ...remark, path: `${nameOf(file)}#${remark.path}`, of })));
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
      read.broken.push({ name: nameOf(file), error });
    }
  }
  return { format, ...checked(source, read) };
}

/** Adds to each checkpoint what the directory of its loop says about the loop. A file that is not JSON is reported. */
function readLoopFiles(
  { beside }: Pick<SourceFiles, "beside">,
  format: FormatName,
): {
  readonly attach: (checkpoint: ExternalCheckpoint) => ExternalCheckpoint;
  readonly broken: DecodedSources["broken"];
} {
  const loops = new Map<string, Record<string, Json>>();
  const broken: { readonly name: string; readonly error: HoldfastError }[] = [];
  for (const file of format === "loop-json" ? beside : []) {
    try {
      loops.set(file.loop, { ...loops.get(file.loop), [nameOf(file)]: readJson(file, format).document });
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
      broken.push({ name: nameOf(file), error });
    }
  }
  const attach = (checkpoint: ExternalCheckpoint): ExternalCheckpoint => {
    const files = loops.get(loopOf(checkpoint)?.loop ?? "");
    return files === undefined ? checkpoint : { ...checkpoint, beside: files };
  };
  return { attach, broken };
}

function decodeCrunch(source: Extract<SourceFiles, { readonly kind: "directory" }>): DecodedSources {
  const { checkpoints, broken, index, remarks } = readCrunchDirectory({ files: source.files, link: source.link });
  const read = {
    checkpoints: checkpoints.map(({ checkpoint }) => checkpoint),
    remarks: [...remarks, ...index.problems.map((text) => ({ path: index.files[0]?.name ?? "index.yaml", text }))],
    broken: [...source.broken, ...broken],
  };
  return { format: "crunch-yaml", ...checked(source, read) };
}

/** The format that the recognised files share. If a file is recognised with certainty, only such files count. */
function formatOfDirectory(
  source: Extract<SourceFiles, { readonly kind: "directory" }>,
  named: FormatName | undefined,
): FormatName {
  if (named !== undefined) return named;
  const claims = source.files.flatMap((file) => {
    const detected = detectFormat(file);
    return detected.kind === "one" ? [{ name: detected.format.name, sure: detected.sure }] : [];
  });
  const sure = claims.filter((claim) => claim.sure);
  const names = [...new Set((sure.length > 0 ? sure : claims).map(({ name }) => name))];
  const [only] = names;
  if (only !== undefined && names.length === 1) return only;
  const loops = [...new Set(source.beside.map(({ loop }) => loop))];
  if (only === undefined && loops.length > 0)
    throw new HoldfastError({
      code: "FORMAT_UNKNOWN",
      message: `No loop in ${source.path} can be continued: ${loops.join(", ")} ${loops.length === 1 ? "has" : "have"} no checkpoint`,
      hint: "Holdfast continues only loops with a checkpoint of the type `ralph_loop`. Start another one with its task and check: `holdfast run --workflow ralph --task TEXT --until COMMAND`.",
      data: { file: source.path, several: false, claims: [] },
    });
  throw new HoldfastError({
    code: "FORMAT_UNKNOWN",
    message:
      only === undefined
        ? `No file in ${source.path} has a known format`
        : `${source.path} has files of several formats: ${names.join(", ")}`,
    hint:
      only === undefined
        ? "Name the checkpoint file, or the directory that contains it; docs/formats.md lists where each tool keeps them."
        : `Choose one: --format ${only}.`,
    data: { file: source.path, several: only !== undefined, claims: names.map((format) => ({ format, why: "" })) },
  });
}

function checked<T extends Pick<DecodedSources, "checkpoints" | "broken">>(source: SourceFiles, read: T): T {
  const [first] = read.broken;
  if (read.checkpoints.length > 0) return read;
  if (first !== undefined) throw first.error;
  throw new HoldfastError({
    code: "FORMAT_UNKNOWN",
    message: `${source.path} has no checkpoint`,
    hint: "Name the directory that contains the checkpoints.",
    data: { file: source.path, several: false, claims: [] },
  });
}

function nameOf(file: ExternalFile): string {
  return file.path.split(/[/\\]/).at(-1) ?? file.path;
}

function notOneHistory(what: string): HoldfastError {
  return usageError(`These files belong to several runs: ${what}`, "Import them one by one: each becomes one run.");
}

/** The validation result of one file. */
export interface Validated {
  readonly file: string;
  /** null: no format recognises it. */
  readonly format: FormatName | null;
  readonly ok: boolean;
  readonly code: ErrorCode | null;
  readonly message: string | null;
  readonly checkpoints: number;
  readonly remarks: readonly Remark[];
}

/**
 * Returns one row per file; for a directory, one row for each file that a format recognises. Never throws for the
 * content of a file.
 */
export function validateFiles(params: {
  readonly paths: readonly string[];
  readonly cwd: string;
  readonly format?: FormatName;
}): readonly Validated[] {
  return params.paths.flatMap((path) => {
    let source;
    try {
      source = readSourceFiles(path, params.cwd);
    } catch (error) {
      return [refused(path, null, error)];
    }
    if (source.kind === "file") return [validateFile(source.file, params.format)];
    const broken = source.broken.map(({ name, error }) => refused(`${path}/${name}`, null, error));
    const rows = source.files.map((file) => validateFile(file, params.format));
    const claimed = rows.filter(({ code }) => code !== "FORMAT_UNKNOWN");
    // Such directories contain index files and notes. Unrecognised files are reported only if no file is recognised.
    return [...broken, ...(claimed.length === 0 && broken.length === 0 ? rows : claimed)];
  });
}

function validateFile(file: Parameters<typeof chooseFormat>[0], named: FormatName | undefined): Validated {
  let format: FormatName | null = named ?? null;
  try {
    if (isRunFile(file.bytes))
      throw usageError(`This is a run file; \`holdfast format import ${file.path} --dry-run\` checks it`);
    const codec = chooseFormat(file, named);
    format = codec.name;
    const { checkpoints, remarks } = codec.decode(file);
    return { file: file.path, format, ok: true, code: null, message: null, checkpoints: checkpoints.length, remarks };
  } catch (error) {
    return refused(file.path, format, error);
  }
}

function refused(file: string, format: FormatName | null, error: unknown): Validated {
  if (!(error instanceof HoldfastError)) throw error;
  const { code, message } = error;
  return { file, format, ok: false, code, message, checkpoints: 0, remarks: [] };
}

export interface Converted {
  readonly from: FormatName;
  readonly to: FormatName;
  /** Oldest first; one document each. */
  readonly external: readonly ExternalCheckpoint[];
  readonly encoded: readonly Encoded[];
  readonly remarks: readonly Remark[];
}

/** Converts a file of one external format to another, without a store. */
export function convertFile(params: {
  readonly path: string;
  readonly cwd: string;
  readonly to: FormatName;
  readonly format?: FormatName;
}): Converted {
  const decoded = decodeSources([readSourceFiles(params.path, params.cwd)], params.format);
  const [broken] = decoded.broken;
  // A partial conversion would look like a complete one.
  if (broken !== undefined) throw broken.error;
  const codec = findFormat(params.to);
  return {
    from: decoded.format,
    to: params.to,
    external: decoded.checkpoints,
    encoded: decoded.checkpoints.map((checkpoint) => codec.encode(checkpoint)),
    remarks: decoded.remarks,
  };
}

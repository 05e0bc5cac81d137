import { HoldfastError } from "../../core/error.ts";
import type { ErrorCode } from "../../core/error.ts";
import type { FormatName, Remark } from "../../formats/format.ts";
import { chooseFormat } from "./choose-format.ts";
import { readSource } from "./read-source.ts";

/** What came of one file. */
export interface Validated {
  readonly file: string;
  /** null: none claims it. */
  readonly format: FormatName | null;
  readonly ok: boolean;
  readonly code: ErrorCode | null;
  readonly message: string | null;
  readonly checkpoints: number;
  readonly remarks: readonly Remark[];
}

/** One row a file; of a directory one for each file in it that a format claims. Never throws for what a file holds. */
export function validateFiles(params: {
  readonly paths: readonly string[];
  readonly cwd: string;
  readonly format?: FormatName;
}): readonly Validated[] {
  return params.paths.flatMap((path) => {
    let source;
    try {
      source = readSource(path, params.cwd);
    } catch (error) {
      return [refused(path, null, error)];
    }
    if (source.kind === "file") return [validateFile(source.file, params.format)];
    const broken = source.broken.map(({ name, error }) => refused(`${path}/${name}`, null, error));
    const rows = source.files.map((file) => validateFile(file, params.format));
    const claimed = rows.filter(({ code }) => code !== "FORMAT_UNKNOWN");
    // Index files and notes lie about in such directories; only if nothing at all is known is that worth a word.
    return [...broken, ...(claimed.length === 0 && broken.length === 0 ? rows : claimed)];
  });
}

function validateFile(file: Parameters<typeof chooseFormat>[0], named: FormatName | undefined): Validated {
  let format: FormatName | null = named ?? null;
  try {
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

import type { Encoded, ForeignCheckpoint, FormatName, Remark } from "../../formats/format.ts";
import { formatNamed } from "./choose-format.ts";
import { decodeSources } from "./decode-sources.ts";
import { readSource } from "./read-source.ts";

export interface Converted {
  readonly from: FormatName;
  readonly to: FormatName;
  /** Oldest first; one document each. */
  readonly foreign: readonly ForeignCheckpoint[];
  readonly encoded: readonly Encoded[];
  readonly remarks: readonly Remark[];
}

/** From one foreign format to another, past any store. */
export function convertFile(params: {
  readonly path: string;
  readonly cwd: string;
  readonly to: FormatName;
  readonly format?: FormatName;
}): Converted {
  const decoded = decodeSources([readSource(params.path, params.cwd)], params.format);
  const [broken] = decoded.broken;
  // A conversion of a part would look like a conversion of all.
  if (broken !== undefined) throw broken.error;
  const codec = formatNamed(params.to);
  return {
    from: decoded.format,
    to: params.to,
    foreign: decoded.checkpoints,
    encoded: decoded.checkpoints.map((checkpoint) => codec.encode(checkpoint)),
    remarks: decoded.remarks,
  };
}

import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { HoldfastError } from "../../core/error.ts";
import type { Encoded, ForeignCheckpoint, FormatName } from "../../formats/format.ts";
import { formatNamed } from "./choose-format.ts";
import { readSource } from "./read-source.ts";
import { placeUnder, refuseOutside, writeDocument } from "./write-foreign.ts";
import type { Written } from "./write-foreign.ts";

/**
 * Where a layout names two checkpoints alike, the one that has the place is put beside it before another takes it. A file there that
 * cannot be read may be the only copy of something, and is not overwritten.
 */
export function setAside(params: {
  readonly to: FormatName;
  readonly root: string;
  readonly path: string;
  readonly encoded: Encoded;
}): readonly Written[] {
  const { path, encoded } = params;
  if (encoded.elsewhere === undefined || !existsSync(path)) return [];
  const codec = formatNamed(params.to);
  const source = readSource(path, params.root);
  if (source.kind !== "file") throw taken(path, undefined);
  let there: ForeignCheckpoint | undefined;
  try {
    [there] = codec.decode(source.file).checkpoints;
  } catch (error) {
    throw taken(path, error);
  }
  const [next] = codec.decode({ path, bytes: encoded.bytes, compression: "none" }).checkpoints;
  if (there === undefined || (there.id === next?.id && there.createdAt === next.createdAt)) return [];
  const { elsewhere } = codec.encode(there);
  if (elsewhere === undefined) return [];
  const place = placeUnder(params.root, elsewhere);
  refuseOutside(params.root, dirname(place));
  return [writeDocument({ bytes: source.file.bytes, losses: [] }, place)];
}

function taken(path: string, cause: unknown): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `${path} cannot be written: something of that name is there and cannot be read`,
    hint: "Move it away first; it was not changed.",
    cause,
  });
}

import { HoldfastError } from "@holdfast/platform/error";
import { readRegularFile, writeDurable } from "@holdfast/platform/files";

/** store.json: says that a store was made here and which. Without it a deleted database would look like none ever was. */
export interface Marker {
  readonly format: number;
  readonly id: string;
}

const FORMAT = 1;
const MAX_BYTES = 64 * 1024;

/** null when there is none. */
export function readMarker(path: string): Marker | null {
  const file = readRegularFile({ path, maxBytes: MAX_BYTES });
  if (file.kind === "absent") return null;
  if (file.kind === "refused") throw damaged(path, file.why);
  const marker = parse(file.bytes.toString("utf8"));
  if (marker === null) throw damaged(path, "it is not what was written");
  if (marker.format > FORMAT) {
    throw new HoldfastError({
      code: "STORE_TOO_NEW",
      message: `${path} has format ${marker.format}; this Holdfast knows ${FORMAT} at most`,
      hint: "Use the Holdfast that wrote it, or a newer one.",
      data: { path, format: marker.format },
    });
  }
  return marker;
}

/** Two processes that make one store at once write the same marker: the id comes from the database. */
export function writeMarker(path: string, id: string): void {
  const marker: Marker = { format: FORMAT, id };
  try {
    writeDurable({ path, data: Buffer.from(`${JSON.stringify(marker)}\n`), mode: "create" });
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  }
}

function parse(text: string): Marker | null {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || !("format" in value) || !("id" in value)) return null;
    const { format, id } = value;
    return typeof format === "number" && typeof id === "string" ? { format, id } : null;
  } catch {
    return null;
  }
}

function damaged(path: string, why: string): HoldfastError {
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: `The store's marker ${path} cannot be used: ${why}`,
    hint: "The database beside it may be whole: move the marker away, open the store and verify it.",
    data: { path },
  });
}

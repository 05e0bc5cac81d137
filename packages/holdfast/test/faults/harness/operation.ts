/** The operations that the tracer recorded, in order. Paths are absolute and canonical. */
export type Operation = {
  /** The tracer's counter, for playing a fault at this place; 0 for what is not counted. */
  readonly number: number;
  readonly thread: number;
} & (
  | { readonly kind: "create"; readonly path: string; readonly ino: number; readonly mode: number }
  | { readonly kind: "mkdir"; readonly path: string; readonly ino: number; readonly mode: number }
  | { readonly kind: "symlink"; readonly path: string; readonly ino: number; readonly target: string }
  | { readonly kind: "link"; readonly path: string; readonly to: string; readonly ino: number }
  | { readonly kind: "rename"; readonly path: string; readonly to: string; readonly exchange: boolean }
  | { readonly kind: "unlink"; readonly path: string }
  | { readonly kind: "rmdir"; readonly path: string }
  | {
      readonly kind: "write";
      readonly path: string;
      readonly ino: number;
      readonly offset: number;
      readonly bytes: Buffer;
    }
  | { readonly kind: "truncate"; readonly path: string; readonly ino: number; readonly size: number }
  | { readonly kind: "allocate"; readonly path: string; readonly ino: number; readonly size: number }
  | { readonly kind: "chmod"; readonly path: string; readonly ino: number; readonly mode: number }
  | { readonly kind: "fsync"; readonly path: string; readonly ino: number }
  /** sync_file_range: bytes go to the disk, but neither size nor place of them is committed. */
  | { readonly kind: "writeout"; readonly path: string; readonly ino: number }
  | { readonly kind: "sync" }
  | { readonly kind: "map"; readonly path: string }
  | { readonly kind: "open"; readonly path: string; readonly writable: boolean }
  | { readonly kind: "print"; readonly text: string }
  /** Made no change; kept because it was counted. */
  | {
      readonly kind: "failed";
      readonly what: string;
      readonly path: string;
      readonly ino: number;
      readonly errno: number;
    }
);

const FALLOC_KEEP_SIZE = 1;
const RENAME_EXCHANGE = 2;
const O_ACCMODE = 3;

export function parseOperation(line: string, data: Buffer): Operation | undefined {
  const [number = "", thread = "", kind = "", result = "", ...rest] = line.split("\t");
  const fields = new Map(rest.map((field) => splitField(field)));
  const text = (name: string): string => fields.get(name) ?? "";
  const count = (name: string): number => Number(fields.get(name) ?? "0");
  const common = { number: Number(number), thread: Number(thread) };
  const path = text("path");
  const ino = count("ino");
  if (Number(result) < 0) return { ...common, kind: "failed", what: kind, path, ino, errno: -Number(result) };
  switch (kind) {
    case "create":
    case "mkdir":
      return { ...common, kind, path, ino, mode: count("mode") };
    case "symlink":
      return { ...common, kind, path, ino, target: text("target") };
    case "link":
      return { ...common, kind, path, to: text("to"), ino };
    case "rename":
      return { ...common, kind, path, to: text("to"), exchange: (count("flags") & RENAME_EXCHANGE) !== 0 };
    case "unlink":
    case "rmdir":
      return { ...common, kind, path };
    case "write": {
      const bytes = data.subarray(count("data"), count("data") + count("length"));
      return { ...common, kind, path, ino, offset: count("offset"), bytes };
    }
    case "truncate":
      return { ...common, kind, path, ino, size: count("size") };
    case "fallocate": {
      const mode = count("mode");
      if ((mode & ~FALLOC_KEEP_SIZE) !== 0) throw new Error(`the model knows no fallocate mode ${mode} (${path})`);
      return { ...common, kind: "allocate", path, ino, size: mode === 0 ? count("offset") + count("bytes") : 0 };
    }
    case "chmod":
      return { ...common, kind, path, ino, mode: count("mode") };
    case "fsync":
    case "fdatasync":
      return { ...common, kind: "fsync", path, ino };
    case "writeout":
      return { ...common, kind, path, ino };
    case "sync":
    case "syncfs":
      return { ...common, kind: "sync" };
    case "mmap":
      return { ...common, kind: "map", path };
    case "open":
      return { ...common, kind, path, writable: (count("flags") & O_ACCMODE) !== 0 };
    case "print":
      return { ...common, kind, text: text("text") };
    case "end":
      return undefined;
    default:
      throw new Error(`the tracer wrote a line that the harness does not know: ${line}`);
  }
}

function splitField(field: string): readonly [string, string] {
  const equals = field.indexOf("=");
  const raw = field.slice(equals + 1);
  const bytes = raw.includes("%") ? unescape(raw) : raw;
  return [field.slice(0, equals), bytes];
}

function unescape(raw: string): string {
  const parts: number[] = [];
  for (let i = 0; i < raw.length; i += 1) {
    if (raw[i] === "%") {
      parts.push(Number.parseInt(raw.slice(i + 1, i + 3), 16));
      i += 2;
    } else parts.push(raw.charCodeAt(i));
  }
  return Buffer.from(parts).toString("utf8");
}

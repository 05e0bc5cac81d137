import { HoldfastError } from "@holdfast/platform/error";

/** Values as SQLite hands them out, parsed once here. A wrong type is damage: our own schema is strict. */
export type Row = Readonly<Record<string, unknown>>;

export function integer(row: Row, column: string): number {
  const value = row[column];
  if (typeof value === "number" && Number.isSafeInteger(value)) return value;
  throw damaged(column, value);
}

export function integerOrNull(row: Row, column: string): number | null {
  return row[column] === null ? null : integer(row, column);
}

export function realOrNull(row: Row, column: string): number | null {
  const value = row[column];
  if (value === null || typeof value === "number") return value;
  throw damaged(column, value);
}

export function text(row: Row, column: string): string {
  const value = row[column];
  if (typeof value === "string") return value;
  throw damaged(column, value);
}

export function textOrNull(row: Row, column: string): string | null {
  return row[column] === null ? null : text(row, column);
}

export function bytes(row: Row, column: string): Uint8Array {
  const value = row[column];
  if (value instanceof Uint8Array) return value;
  throw damaged(column, value);
}

export function bytesOrNull(row: Row, column: string): Uint8Array | null {
  return row[column] === null ? null : bytes(row, column);
}

/** Digests are hex to everybody else and 32 bytes in the database. */
export function toHex(value: Uint8Array): string {
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("hex");
}

export function fromHex(value: string): Buffer {
  return Buffer.from(value, "hex");
}

function damaged(column: string, value: unknown): HoldfastError {
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: `The column ${column} holds ${value === null ? "nothing" : `a ${typeof value}`} where something else belongs`,
    hint: "Run `holdfast verify` to see what is still whole.",
    data: { column },
  });
}

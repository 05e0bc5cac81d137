import { HoldfastError } from "../core/error.ts";

/** What went wrong, in a line. */
export function reasonOf(error: unknown): string {
  if (error instanceof HoldfastError) return `${error.code}: ${error.message}`;
  return error instanceof Error ? error.message : String(error);
}

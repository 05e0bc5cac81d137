import { HoldfastError } from "@holdfast/platform/error";
import { MAX_ENTRIES, MAX_LOGICAL_BYTES } from "./limits.ts";

/** Refuses what decode would not take back. */
export function checkSize(size: { readonly bytes: number; readonly entries: number }): void {
  if (size.bytes <= MAX_LOGICAL_BYTES && size.entries <= MAX_ENTRIES) return;
  throw new HoldfastError({
    code: "NOT_JSON",
    message: `A value of ${size.bytes} bytes with ${size.entries} entries is more than a checkpoint can hold`,
    hint: `Keep a state under ${MAX_LOGICAL_BYTES} bytes and any array or object in it under ${MAX_ENTRIES} entries; put large data into files.`,
  });
}

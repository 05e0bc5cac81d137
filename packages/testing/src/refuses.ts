// An assertion for rejections with a HoldfastError.

import assert from "node:assert/strict";
import { type ErrorCode, HoldfastError } from "@holdfast/platform/error";

/** Requires a HoldfastError with this code, a message and a hint. */
export async function rejectsWith(code: ErrorCode, work: () => Promise<unknown>): Promise<HoldfastError> {
  try {
    await work();
  } catch (error) {
    assert.ok(error instanceof HoldfastError, `expected a HoldfastError, got ${String(error)}`);
    assert.equal(error.code, code, error.message);
    assert.notEqual(error.message, "");
    assert.ok(error.hint !== undefined && error.hint !== "", `${code} comes without a hint`);
    return error;
  }
  assert.fail(`expected ${code}, but it succeeded`);
}

/** Containers nested deeper are refused: every walk below may then recurse without fear for the stack. */
export const MAX_DEPTH = 1000;

/**
 * Of the canonical JSON of one value; below the longest string the engine can make. What encode lets through, decode
 * must be able to take back.
 */
export const MAX_LOGICAL_BYTES = 500_000_000;

/** Elements or keys of one container: what decode may allocate on the word of a few hostile bytes. */
export const MAX_ENTRIES = 1 << 22;

/*
 * Those below, like the numbers in cut.ts and cut-text.ts, decide how a value is cut up and so enter its digest:
 * another number is another format.
 */

/** Canonical JSON shorter than this (in UTF-16 units) stands inside its parent; longer makes a chunk of its own. */
export const INLINE_BELOW = 512;

/** A container up to this long is one chunk of JSON; longer, it becomes pages of entries. */
export const LEAF_MAX = 4096;

/**
 * An element of an array may be longer and one chunk all the same, if it is one text with little around it: a message.
 * `FRAME_MAX` is what may be around it.
 */
export const FRAMED_TEXT_MAX = 16_384;
export const FRAME_MAX = 1024;

/** A string longer than this is cut into pieces. */
export const TEXT_LEAF_MAX = 65_536;

import { createFrames, frameLength, isLong } from "./frames.ts";
import type { Frames } from "./frames.ts";
import type { LogRow } from "../log.ts";

/** Entries on their way into the log: held until they can be written in as few rows as possible. */
export interface Gathered {
  /** "no": each is a row of its own at once. "single": a row of frames at once. "together": held until `write`. */
  begin(how: "single" | "together"): void;
  insert(row: LogRow, body: string | Uint8Array): void;
  stage(text: string): Uint8Array;
  write(transact: (work: () => void) => void): void;
  discard(): void;
  /** Lowest position that is held; Infinity when none is. */
  first(): number;
}

type Held = { readonly kind: "row"; readonly row: LogRow; readonly body: string | Uint8Array } | HeldFrames;

interface HeldFrames {
  readonly kind: "frames";
  readonly first: number;
  readonly at: number;
  readonly frames: Frames;
}

/** Frames kept for the next group: as many as a group of ordinary size needs. */
const SPARE = 16;

export function createGathered(into: {
  readonly row: (row: LogRow, body: string | Uint8Array) => void;
  readonly frames: (first: number, at: number, frames: Frames) => void;
}): Gathered {
  const spare: Frames[] = [];
  let how: "no" | "single" | "together" = "no";
  let held: Held[] = [];
  /** Where the next entry goes if it has room. */
  let current: Frames | undefined;

  function framesFor(length: number): Frames {
    if (current === undefined || !current.hasRoom(length)) current = spare.pop() ?? createFrames();
    return current;
  }

  function hold(row: LogRow, body: string | Uint8Array): void {
    const length = frameLength(row, body);
    if (isLong(length)) {
      // What was staged may be overwritten before it is written.
      held.push({ kind: "row", row, body: typeof body === "string" ? body : Buffer.from(body) });
      current = undefined;
      return;
    }
    const frames = framesFor(length);
    if (frames.count() === 0) held.push({ kind: "frames", first: row.pos, at: row.at, frames });
    frames.add(row, body);
  }

  function putHeld(): void {
    for (const one of held) {
      if (one.kind === "row") into.row(one.row, one.body);
      else into.frames(one.first, one.at, one.frames);
    }
  }

  function letGo(): void {
    for (const one of held) {
      if (one.kind === "row" || spare.length >= SPARE) continue;
      one.frames.clear();
      spare.push(one.frames);
    }
    held = [];
    current = undefined;
  }

  return {
    begin(wanted) {
      how = wanted;
    },
    insert(row, body) {
      if (how === "no") {
        into.row(row, body);
        return;
      }
      hold(row, body);
      if (how === "together") return;
      try {
        putHeld();
      } finally {
        letGo();
      }
    },
    stage(text) {
      if (how === "no" || isLong(text.length)) return Buffer.from(text);
      return framesFor(text.length).stage(text);
    },
    write(transact) {
      how = "no";
      try {
        if (held.length === 1) putHeld();
        else if (held.length > 1) transact(putHeld);
      } finally {
        letGo();
      }
    },
    discard() {
      how = "no";
      letGo();
    },
    first() {
      const [first] = held;
      if (first === undefined) return Number.POSITIVE_INFINITY;
      return first.kind === "row" ? first.row.pos : first.first;
    },
  };
}

import type { Writable } from "node:stream";
import { escapeUnsealed, removeSeals } from "./escape-text.ts";

/** A stream that may go away under us: `| head -1` closes it early, and that is no reason to stop a restore half-way. */
export interface Sink {
  /**
   * false once nothing gets through any more: streams of data can stop. Control characters are escaped, except in "content" (a patch, a document, an
   * agent's log) whose reader is not a terminal.
   */
  write(text: string, kind?: "message" | "content"): boolean;
  /** The text as `write` would write it, for questions that readline writes. */
  shown(text: string): string;
  /** Resolves when all that was written has left the process. */
  drained(): Promise<void>;
  /** Why output was lost (a full disk behind `>`); a reader that has gone away is no failure. */
  failure(): Error | undefined;
}

export interface Streams {
  readonly out: Sink;
  readonly err: Sink;
}

export interface SinkParams {
  readonly stream: Writable & { readonly isTTY?: boolean };
  /** Hides secrets in each text that is written. */
  readonly mask?: (text: string) => string;
  /** Of the pages whose text is written here. */
  readonly seal: string;
}

export function createSink({ stream, mask = (text) => text, seal }: SinkParams): Sink {
  const shown = (text: string): string => escapeUnsealed(mask(text), seal);
  let open = true;
  let failure: Error | undefined;
  let pending: Promise<void> = Promise.resolve();
  const note = (error: NodeJS.ErrnoException): void => {
    open = false;
    if (error.code !== "EPIPE") failure ??= error;
  };
  stream.on("error", note);
  return {
    shown,
    write(text, kind = "message") {
      if (!open || text === "") return open;
      pending = new Promise((resolve) => {
        const written = kind === "content" && stream.isTTY !== true ? removeSeals(mask(text), seal) : shown(text);
        stream.write(written, (error) => {
          if (error) note(error);
          resolve();
        });
      });
      return open;
    },
    drained: () => pending,
    failure: () => failure,
  };
}

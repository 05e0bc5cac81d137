import type { Writable } from "node:stream";

/** A stream that may go away under us: `| head -1` closes it early, and that is no reason to stop a restore half-way. */
export interface Sink {
  /** false once nothing gets through any more: streams of data can stop. */
  write(text: string): boolean;
  /** Resolves when all that was written has left the process. */
  drained(): Promise<void>;
  /** Why output was lost (a full disk behind `>`); a reader that has gone away is no failure. */
  failure(): Error | undefined;
}

export interface Streams {
  readonly out: Sink;
  readonly err: Sink;
}

/** `mask` hides secrets in each text that is written. */
export function createSink(stream: Writable, mask: (text: string) => string = (text) => text): Sink {
  let open = true;
  let failure: Error | undefined;
  let pending: Promise<void> = Promise.resolve();
  const note = (error: NodeJS.ErrnoException): void => {
    open = false;
    if (error.code !== "EPIPE") failure ??= error;
  };
  stream.on("error", note);
  return {
    write(text) {
      if (!open || text === "") return open;
      pending = new Promise((resolve) => {
        stream.write(mask(text), (error) => {
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

import { Writable } from "node:stream";

/** What the program says, as a stream that the library can read. */
export function createSpoken(): { readonly stream: ReadableStream<Uint8Array>; add(text: string): void; end(): void } {
  const encoder = new TextEncoder();
  let controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  const stream = new ReadableStream<Uint8Array>({
    start: (given) => void (controller = given),
    cancel: () => void (controller = null),
  });
  return {
    stream,
    add: (text) => controller?.enqueue(encoder.encode(text)),
    end() {
      controller?.close();
      controller = null;
    },
  };
}

export function outputTo(stdin: Writable): WritableStream<Uint8Array> {
  return Writable.toWeb(stdin);
}

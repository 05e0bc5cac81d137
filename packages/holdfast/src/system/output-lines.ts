/** Cuts a stream into lines. A line without an end is handed on in pieces of `maxCharacters`, so that it cannot fill the memory. */
export function createLines(params: { readonly onLine: (line: string) => void; readonly maxCharacters?: number }): {
  add(text: string): void;
  /** Hands on the last line, when no newline ended it. */
  end(): void;
} {
  const limit = params.maxCharacters ?? 1_000_000;
  let pending = "";
  return {
    add(text) {
      const lines = (pending + text).split("\n");
      pending = lines.pop() ?? "";
      for (const line of lines) params.onLine(line.endsWith("\r") ? line.slice(0, -1) : line);
      while (pending.length >= limit) {
        params.onLine(pending.slice(0, limit));
        pending = pending.slice(limit);
      }
    },
    end() {
      if (pending !== "") params.onLine(pending);
      pending = "";
    },
  };
}

/** What a review says, as one text that somebody can work from. */
export function reviewText(
  body: string,
  remarks: readonly { readonly file: string; readonly line: number | null; readonly body: string }[],
): string {
  const lines = remarks.map(
    ({ file, line, body: said }) => `${file}${line === null ? "" : `:${line}`}: ${said.trim()}`,
  );
  return [body.trim(), ...lines].filter((part) => part !== "").join("\n\n");
}

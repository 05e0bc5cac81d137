/** A pull request's body that closes this issue. */
export function closingBody(text: string, issue: number): string {
  const body = withoutKeys(text);
  if (closes(body, issue)) return body;
  return `${body}${body === "" ? "" : "\n\n"}Closes #${issue}`;
}

/** Without comments in the form of our own keys: a key in the text of an agent would make its pull request be found as another run's. */
export function withoutKeys(text: string): string {
  return text.replaceAll(/<!--\s*holdfast:[^]*?-->/g, "").trim();
}

/** "closes #420" does not close 42, and neither does "discloses #42". */
export function closes(body: string, issue: number): boolean {
  return new RegExp(`(?<![\\w-])closes\\s+#\\s*${issue}(?!\\d)`, "i").test(body);
}

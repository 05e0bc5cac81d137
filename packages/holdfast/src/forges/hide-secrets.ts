/**
 * Text of a forge or of its program, fit for messages: without the token that was used, without anything that looks like one, and
 * without what a URL may carry before its host. Messages end up in journals, logs and reports.
 */
export function hideSecrets(text: string, known: readonly string[] = []): string {
  const bare = known.filter((secret) => secret !== "").reduce((rest, secret) => rest.replaceAll(secret, "***"), text);
  return bare
    .replaceAll(/\b([a-z][a-z0-9+.-]*:\/\/)[^\s/@'"]*@/gi, "$1***@")
    .replaceAll(/\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|gl[a-z]{2,6}-[\w.-]{16,})/g, "***")
    .replaceAll(
      /\b((?:authorization|private-token|job-token)["']?\s*[:=]\s*["']?)(?:(?:bearer|token|basic)\s+)?[^\s"',]+/gi,
      "$1***",
    );
}

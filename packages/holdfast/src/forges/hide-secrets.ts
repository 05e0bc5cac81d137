import { maskSecrets } from "../core/mask.ts";

/**
 * Text of a forge or of its program, fit for messages: without the token that was used, without anything that looks like one, and
 * without what a URL may carry before its host. Messages end up in journals, logs and reports.
 */
export function hideSecrets(text: string, known: readonly string[] = []): string {
  const values = known.filter((secret) => secret !== "").map((value) => ({ name: "token", value }));
  return maskSecrets(text, values)
    .replaceAll(/\b([a-z][a-z0-9+.-]*:\/\/)[^\s/@'"]*@/gi, "$1***@")
    .replaceAll(
      /\b((?:authorization|private-token|job-token)["']?\s*[:=]\s*["']?)(?:(?:bearer|token|basic)\s+)?[^\s"',]+/gi,
      "$1***",
    );
}

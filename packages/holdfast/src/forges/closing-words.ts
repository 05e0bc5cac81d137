/** Numbers of the issues that a pull request's body says it closes. `Closes #42` is not about 4, and 420 is not 42. */
export function closedIssues(body: string): readonly number[] {
  const named = body.matchAll(/\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\s*:?\s+#(\d{1,9})(?!\d)/gi);
  return [...new Set(Array.from(named, ([, digits]) => Number(digits)))];
}

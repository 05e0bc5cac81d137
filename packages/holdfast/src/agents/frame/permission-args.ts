/**
 * What the user has put into the config, with ours for permissions before it: unless it speaks of the same. Then it alone holds, also with
 * `--yolo`, since most refuse two answers to one question and a limit that somebody has set is to be kept.
 */
export function permissionArgs(params: {
  readonly ours: readonly string[];
  readonly extra: readonly string[];
  /** Options that speak of what ours speak of. */
  readonly words: readonly string[];
}): readonly string[] {
  const { ours, extra, words } = params;
  return extra.some((arg) => words.includes(arg.split("=")[0] ?? "")) ? extra : [...ours, ...extra];
}

/** The oldest git that serves: the first whose `merge-tree` works in objects alone. Those before 2.36 also sync nothing. */
export const GIT_FLOOR = "2.38";

/** Of what `git --version` prints; unknown words are not held against it. */
export function isOldGit(version: string): boolean {
  const [major, minor] = numbersOf(version);
  const [floorMajor, floorMinor] = numbersOf(GIT_FLOOR);
  return major < floorMajor || (major === floorMajor && minor < floorMinor);
}

function numbersOf(version: string): readonly [number, number] {
  const [, major, minor] = /(\d+)\.(\d+)/.exec(version) ?? [];
  return [Number(major ?? Infinity), Number(minor ?? Infinity)];
}

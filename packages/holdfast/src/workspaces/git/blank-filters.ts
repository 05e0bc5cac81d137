import { splitRecords } from "../raw-path.ts";
import type { Repository } from "../repository.ts";

/**
 * Settings, as environment, under which no content filter runs, wherever it is configured. For the one command that lets git
 * write files by itself: a new worktree. Files under such a filter (LFS) arrive there as they are stored.
 */
export async function blankFilters(repository: Repository): Promise<Readonly<Record<string, string>>> {
  const listed = await repository.git.result({ args: ["config", "-z", "--name-only", "--get-regexp", "^filter\\."] });
  const names = new Set(
    splitRecords(listed.stdout).flatMap((key) => {
      const match = /^filter\.(.*)\.[^.]+$/s.exec(Buffer.from(key, "latin1").toString("utf8"));
      return match?.[1] ?? [];
    }),
  );
  const settings = [...names].flatMap((name) => [
    [`filter.${name}.clean`, ""],
    [`filter.${name}.smudge`, ""],
    [`filter.${name}.process`, ""],
    [`filter.${name}.required`, "false"],
  ]);
  // As environment and not as -c: a name may hold an equals sign.
  const env: Record<string, string> = { GIT_CONFIG_COUNT: String(settings.length) };
  for (const [place, [key = "", value = ""]] of settings.entries()) {
    env[`GIT_CONFIG_KEY_${place}`] = key;
    env[`GIT_CONFIG_VALUE_${place}`] = value;
  }
  return env;
}

import { existsSync, realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";

/**
 * What npm installs as `qwen` starts Node a second time, and when it is killed Qwen Code goes on alone. So it is started as that script would
 * start it. What is no such script is taken as it is.
 */
export function innerProgram(found: string): readonly [string, ...string[]] {
  try {
    const script = realpathSync(found);
    const inner = join(dirname(script), "cli.js");
    return basename(script) === "cli-entry.js" && existsSync(inner) ? ["node", "--expose-gc", inner] : [found];
  } catch {
    return [found];
  }
}

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { HoldfastError } from "../../core/error.ts";

/** A file of the installed package. Its root is above: how far depends on whether this is the library, the bundle or the source. */
export function readPackageFile(path: string): string {
  for (let directory = import.meta.dirname; ; directory = dirname(directory)) {
    try {
      return readFileSync(join(directory, path), "utf8");
    } catch (cause) {
      if (dirname(directory) !== directory) continue;
      throw new HoldfastError({
        code: "IO_FAILED",
        message: `${path} is not in this installation`,
        hint: "Install the package again.",
        cause,
      });
    }
  }
}

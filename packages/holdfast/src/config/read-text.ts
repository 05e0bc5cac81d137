import { HoldfastError } from "../core/error.ts";
import { readRegularFile } from "../system/regular-file.ts";

/** A settings file that is there. IO_FAILED when it cannot be read, or is no plain file of a sensible size. */
export function readText(path: string): string {
  const hint = "Make it a plain file that you may read, of at most 1 MB.";
  try {
    const file = readRegularFile({ path, maxBytes: 1_000_000 });
    if (file.kind === "read") return file.bytes.toString("utf8");
    throw new HoldfastError({
      code: "IO_FAILED",
      message: `Cannot read the config: ${file.kind === "refused" ? file.why : `${path} is gone`}`,
      hint,
      data: { path },
    });
  } catch (cause) {
    if (cause instanceof HoldfastError) throw cause;
    throw new HoldfastError({ code: "IO_FAILED", message: `Cannot read ${path}`, hint, data: { path }, cause });
  }
}

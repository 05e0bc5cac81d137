import type { CommandSpec } from "../../command.ts";

/** Where documents go; what `writeOut` heeds. */
export const OUTPUT_FLAGS = {
  output: {
    type: "text",
    short: "o",
    value: "PATH",
    about: "a file, or a directory (one that is there, or ends in a slash); default stdout",
    completes: "file",
  },
  "dry-run": { type: "boolean", about: "only say what would be lost" },
} as const satisfies CommandSpec["flags"];

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { onTestFinished } from "vitest";
import { scratchDirectory } from "./store-contract/scratch-directory.ts";

/** For the rest of a test: every git that is started, by us or by what we start, is written down and then runs as ever. */
export function countGit(options: { readonly version?: string } = {}): { readonly calls: () => readonly string[] } {
  const path = process.env["PATH"] ?? "";
  const bin = join(scratchDirectory(onTestFinished), "bin");
  const log = join(bin, "log");
  mkdirSync(bin);
  const lines = [
    "#!/bin/sh",
    `echo "$*" >> '${log}'`,
    ...(options.version === undefined
      ? []
      : [`if [ "$*" = --version ]; then echo git version ${options.version}; exit; fi`]),
    `PATH='${path}' exec git "$@"`,
  ];
  writeFileSync(join(bin, "git"), `${lines.join("\n")}\n`, { mode: 0o755 });
  process.env["PATH"] = `${bin}${delimiter}${path}`;
  onTestFinished(() => void (process.env["PATH"] = path));
  return { calls: () => (existsSync(log) ? readFileSync(log, "utf8").trimEnd().split("\n") : []) };
}

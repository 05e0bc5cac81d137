import { execFileSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { fileKind, readRegularFile } from "./regular-file.ts";
import { scratchDirectory } from "../testing/store-contract/scratch-directory.ts";

test("only regular files of a sane size are read; nothing else is even opened", () => {
  const directory = scratchDirectory(onTestFinished);
  const at = (name: string): string => join(directory, name);
  writeFileSync(at("file"), "content");
  mkdirSync(at("directory"));
  symlinkSync(at("file"), at("link"));
  execFileSync("mkfifo", [at("fifo")]);
  expect(["none", "file/below", "file", "directory", "link", "fifo"].map((name) => fileKind(at(name)))).toEqual([
    "absent",
    "absent",
    "file",
    "directory",
    "other",
    "other",
  ]);
  expect(readRegularFile({ path: at("none"), maxBytes: 10 })).toEqual({ kind: "absent" });
  const read = readRegularFile({ path: at("file"), maxBytes: 10 });
  expect(read.kind === "read" ? read.bytes.toString() : read).toBe("content");
  expect(readRegularFile({ path: at("file"), maxBytes: 3 }).kind).toBe("refused");
  for (const name of ["directory", "link", "fifo"])
    expect(readRegularFile({ path: at(name), maxBytes: 10 }).kind, name).toBe("refused");
});

import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { fileKind, makeDurableDirectory, readRegularFile, writeDurable } from "./files.ts";

describe("durable file", () => {
  test("a file is written whole, for its owner only, and leaves no temporary file", () => {
    const directory = scratchDirectory(onTestFinished);
    const path = join(directory, "file");
    const data = Buffer.alloc(300_000, "x");
    writeDurable({ path, data, mode: "create" });
    expect(readFileSync(path).equals(data)).toBe(true);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readdirSync(directory)).toEqual(["file"]);
  });

  test("create refuses an existing file; replace replaces it", () => {
    const directory = scratchDirectory(onTestFinished);
    const path = join(directory, "file");
    writeDurable({ path, data: Buffer.from("one"), mode: "create" });
    expect(() => writeDurable({ path, data: Buffer.from("two"), mode: "create" })).toThrow(/EEXIST/);
    expect(readFileSync(path, "utf8")).toBe("one");
    writeDurable({ path, data: Buffer.from("two"), mode: "replace" });
    expect(readFileSync(path, "utf8")).toBe("two");
    expect(readdirSync(directory)).toEqual(["file"]);
  });

  test("replacing a link replaces the link, not what it points to", () => {
    const directory = scratchDirectory(onTestFinished);
    const target = join(directory, "target");
    writeFileSync(target, "precious");
    symlinkSync(target, join(directory, "link"));
    writeDurable({ path: join(directory, "link"), data: Buffer.from("new"), mode: "replace" });
    expect(readFileSync(target, "utf8")).toBe("precious");
  });

  test("a failure leaves nothing behind", () => {
    const directory = scratchDirectory(onTestFinished);
    expect(() =>
      writeDurable({ path: join(directory, "gone", "file"), data: Buffer.from("x"), mode: "replace" }),
    ).toThrow(/ENOENT/);
    writeFileSync(join(directory, "plain"), "");
    makeDurableDirectory(join(directory, "taken", "inner"));
    expect(() => writeDurable({ path: join(directory, "taken"), data: Buffer.from("x"), mode: "replace" })).toThrow();
    expect(readdirSync(directory).sort()).toEqual(["plain", "taken"]);
  });

  test("directories are created with their parents; existing ones are unchanged", () => {
    const directory = scratchDirectory(onTestFinished);
    chmodSync(directory, 0o755);
    makeDurableDirectory(join(directory, "a", "b", "c"));
    makeDurableDirectory(join(directory, "a", "b", "c"));
    expect(existsSync(join(directory, "a", "b", "c"))).toBe(true);
    expect(statSync(join(directory, "a", "b")).mode & 0o777).toBe(0o700);
    expect(statSync(directory).mode & 0o777).toBe(0o755);
    writeFileSync(join(directory, "file"), "");
    expect(() => makeDurableDirectory(join(directory, "file"))).toThrow(/EEXIST/);
  });
});

describe("regular file", () => {
  test("only regular files of limited size are read; nothing else is opened", () => {
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
});

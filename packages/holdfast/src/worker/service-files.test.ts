import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { findProgram } from "@holdfast/platform/subprocess";
import { type ServiceInput, planService, programOf, serviceVariables } from "./service-files.ts";

/** Blanks, quotes, specifiers, variables and XML: a path may have all of them. */
const ODD = `it's "100 %h" of $HOME & <more>\\n; # ü`;
/** systemd refuses quotes and backslashes in the path of the program itself. */
const ODD_PROGRAM = "100 %h of $HOME & <more>; # ü";

const input = (more: Partial<ServiceInput> = {}): ServiceInput => ({
  kind: "systemd",
  node: `/opt/${ODD_PROGRAM}/node`,
  entry: `/opt/${ODD}/bin/holdfast.cjs`,
  flags: [],
  home: "/home/ann",
  configHome: "/home/ann/.config",
  uid: 1000,
  environment: { PATH: `/opt/${ODD}:/usr/bin`, LANG: "C.UTF-8" },
  ...more,
});

/** The words of a line of a unit file by the rules of systemd.syntax(7), and without the specifier's escape. */
function systemdWords(line: string): readonly string[] {
  const words = [...line.matchAll(/"((?:[^"\\]|\\["\\])*)"(?: |$)/g)];
  expect(words.map(([all]) => all).join("")).toBe(line);
  return words.map(([, word = ""]) => {
    expect(word.replaceAll("%%", "")).not.toContain("%");
    return word.replaceAll(/\\(["\\])/g, "$1").replaceAll("%%", "%");
  });
}

function settings(text: string, key: string): readonly string[] {
  return text.split("\n").flatMap((line) => (line.startsWith(`${key}=`) ? [line.slice(key.length + 1)] : []));
}

describe("the systemd unit", () => {
  test("has absolute paths, and every character of them", () => {
    const { path, text } = planService(input({ flags: ["--join", "--label", ODD] }));
    expect(path).toBe("/home/ann/.config/systemd/user/holdfast.service");
    const [start = ""] = settings(text, "ExecStart");
    // ":" makes systemd take $ literally.
    expect(systemdWords(start)).toEqual([`:${input().node}`, input().entry, "worker", "--join", "--label", ODD]);
    expect(settings(text, "Environment").map(systemdWords)).toEqual([[`PATH=/opt/${ODD}:/usr/bin`], ["LANG=C.UTF-8"]]);
    expect(settings(text, "Restart")).toEqual(["on-failure"]);
    expect(settings(text, "WantedBy")).toEqual(["default.target"]);
  });

  const analyze = findProgram("systemd-analyze");
  test.skipIf(analyze === undefined)("passes systemd-analyze verify (skipped where systemd is not installed)", () => {
    const scratch = scratchDirectory(onTestFinished);
    const directory = join(scratch, ODD_PROGRAM);
    mkdirSync(directory);
    const node = join(directory, "node");
    const verify = (text: string): string => {
      const file = join(scratch, "holdfast.service");
      writeFileSync(file, text);
      const env = { PATH: process.env["PATH"] ?? "", HOME: scratch, XDG_RUNTIME_DIR: scratch };
      const { status, stderr } = spawnSync(analyze ?? "", ["--user", "verify", file], { env, encoding: "utf8" });
      return `${status} ${stderr}`;
    };
    const { text } = planService(input({ node, entry: join(scratch, ODD, "holdfast.cjs") }));
    // systemd reads the same path as we wrote: it reports the program as missing, and then as present.
    expect(verify(text)).toContain("is not executable");
    writeFileSync(node, "#!/bin/sh\n");
    chmodSync(node, 0o755);
    expect(verify(text)).toBe("0 ");
    expect(verify(text.replace("Restart=", "Restarts="))).toContain("Restarts");
  });
});

describe("the launchd agent", () => {
  test("is a property list with absolute paths, and every character of them", () => {
    const { path, text, enable, disable } = planService(
      input({ kind: "launchd", home: "/Users/ann b", flags: ["--label", ODD] }),
    );
    expect(path).toBe("/Users/ann b/Library/LaunchAgents/holdfast.worker.plist");
    expect(parsePlist(text)).toEqual({
      Label: "holdfast.worker",
      ProgramArguments: [input().node, input().entry, "worker", "--label", ODD],
      EnvironmentVariables: input().environment,
      RunAtLoad: true,
      KeepAlive: { SuccessfulExit: false },
      ThrottleInterval: 30,
      ExitTimeOut: 90,
      StandardOutPath: "/Users/ann b/Library/Logs/holdfast-worker.log",
      StandardErrorPath: "/Users/ann b/Library/Logs/holdfast-worker.log",
    });
    expect([...enable, ...disable]).toEqual([
      ["launchctl", "bootstrap", "gui/1000", path],
      ["launchctl", "bootout", "gui/1000/holdfast.worker"],
    ]);
  });
});

test.each(["systemd", "launchd"] as const)("%s refuses control characters, and writes the same text twice", (kind) => {
  for (const odd of ["a\nb", "a\rb", "a\tb", "a\u0000b", "a\u007fb"]) {
    expect(() => planService(input({ kind, node: `/opt/${odd}/node` }))).toThrow(/control character/);
    expect(() => planService(input({ kind, flags: ["--label", odd] }))).toThrow(/control character/);
    expect(() => planService(input({ kind, environment: { PATH: odd } }))).toThrow(/control character/);
  }
  expect(planService(input({ kind }))).toEqual(planService(input({ kind })));
});

test("systemd refuses a Node whose path it could not start", () => {
  for (const character of [`"`, "'", "\\"])
    expect(() => planService(input({ node: `/opt/a${character}b/node` }))).toThrow(/quote or a backslash/);
});

test.each(["systemd", "launchd"] as const)(
  "the program of a %s file changes with Node and Holdfast, not with PATH",
  (kind) => {
    const of = (more: Partial<ServiceInput>): string => programOf(planService(input({ kind, ...more })).text);
    expect(of({})).not.toBe("");
    expect(of({ environment: { PATH: "/bin" } })).toBe(of({}));
    expect(of({ node: "/usr/bin/node" })).not.toBe(of({}));
    expect(of({ entry: "/usr/lib/holdfast.cjs" })).not.toBe(of({}));
  },
);

test("the service gets no secret, no relative program directory and none of the repository", () => {
  const env = {
    PATH: "/shop/node_modules/.bin:./bin::/usr/bin:/shop:/bin:/usr/bin:/shopping/bin:/opt/../shop/bin",
    LANG: "C.UTF-8",
    XDG_STATE_HOME: "/state",
    TZ: "",
    ANTHROPIC_API_KEY: "sk-ant-1",
    GITHUB_TOKEN: "ghp_1",
    HOLDFAST_TRUST: "1",
    HTTPS_PROXY: "http://ann:secret@proxy",
    HOME: "/home/ann",
  };
  expect(serviceVariables(env, "/shop")).toEqual({
    PATH: "/usr/bin:/bin:/shopping/bin",
    LANG: "C.UTF-8",
    XDG_STATE_HOME: "/state",
  });
});

/** Accepts the part of property lists that launchd agents use, and nothing else: every byte must belong to a known element. */
function parsePlist(text: string): unknown {
  let rest = text;
  const take = (pattern: RegExp): RegExpExecArray | null => {
    const found = new RegExp(`^\\s*(?:${pattern.source})`).exec(rest);
    if (found !== null) rest = rest.slice(found[0].length);
    return found;
  };
  const need = (pattern: RegExp): RegExpExecArray => {
    const found = take(pattern);
    if (found === null) throw new Error(`expected ${pattern.source} at ${JSON.stringify(rest.slice(0, 60))}`);
    return found;
  };
  const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };
  const plain = (raw = ""): string =>
    raw.replaceAll(/&([^;&]*);|&/g, (_, name: string | undefined) => {
      const character = ENTITIES[name ?? ""];
      if (character === undefined) throw new Error(`unknown entity in ${raw}`);
      return character;
    });
  const value = (): unknown => {
    if (take(/<true\/>/) !== null) return true;
    if (take(/<false\/>/) !== null) return false;
    const integer = take(/<integer>(\d+)<\/integer>/);
    if (integer !== null) return Number(integer[1]);
    const string = take(/<string>([^<>]*)<\/string>/);
    if (string !== null) return plain(string[1]);
    if (take(/<array>/) !== null) {
      const items: unknown[] = [];
      while (take(/<\/array>/) === null) items.push(value());
      return items;
    }
    need(/<dict>/);
    const pairs: [string, unknown][] = [];
    while (take(/<\/dict>/) === null) pairs.push([plain(need(/<key>([^<>]*)<\/key>/)[1]), value()]);
    expect(new Set(pairs.map(([key]) => key)).size).toBe(pairs.length);
    return Object.fromEntries(pairs);
  };
  need(/<\?xml version="1\.0" encoding="UTF-8"\?>/);
  need(
    /<!DOCTYPE plist PUBLIC "-\/\/Apple\/\/DTD PLIST 1\.0\/\/EN" "http:\/\/www\.apple\.com\/DTDs\/PropertyList-1\.0\.dtd">/,
  );
  take(/<!--(?:(?!--)[^])*-->/);
  need(/<plist version="1\.0">/);
  const found = value();
  need(/<\/plist>\s*$/);
  return found;
}

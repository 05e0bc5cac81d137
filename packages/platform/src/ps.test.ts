import { expect, test } from "vitest";
import { parseLsofFolders, parsePsNames, parsePsTable, parsePsVariable, readPs, readPsVariables } from "./ps.ts";

test("lines of BSD and of procps are read; a line of another shape is not guessed", () => {
  const table = [
    "    1     0     1 Ss   Mon Oct  5 09:00:44 2026    ",
    "  512     1   512 S+   Mon Oct 12 18:03:00 2026    ",
    "98211   512   512 T    Wed Nov 18 00:00:09 2026    ",
    "98212   512 98212 Z    Wed Nov 18 00:00:09 2026    ",
    "98213   512 98212 ?Es  Wed Nov 18 00:00:10 2026    ",
    "",
  ].join("\n");
  expect(parsePsTable(table)).toEqual([
    { pid: 1, parent: 0, group: 1, state: "Ss", started: "Mon Oct  5 09:00:44 2026" },
    { pid: 512, parent: 1, group: 512, state: "S+", started: "Mon Oct 12 18:03:00 2026" },
    { pid: 98_211, parent: 512, group: 512, state: "T", started: "Wed Nov 18 00:00:09 2026" },
    { pid: 98_212, parent: 512, group: 98_212, state: "Z", started: "Wed Nov 18 00:00:09 2026" },
    { pid: 98_213, parent: 512, group: 98_212, state: "?Es", started: "Wed Nov 18 00:00:10 2026" },
  ]);
  expect(parsePsTable("")).toEqual([]);
  // The locale en_AU swaps day and month.
  expect(parsePsTable("1 0 1 Ss Mon  5 Oct 09:00:44 2026")).toBeNull();
  expect(parsePsTable(`${table}ps: sysctl failed`)).toBeNull();
});

/** A bare Debian has no `ps`. */
const hasPs = readPs([process.pid]) !== null;

test.skipIf(!hasPs)(
  "the start of a process is the same text in any time zone and locale of the caller (needs ps)",
  () => {
    const before = { TZ: process.env["TZ"], LC_ALL: process.env["LC_ALL"], LC_TIME: process.env["LC_TIME"] };
    try {
      const own = readPs([process.pid]);
      expect(own).toMatchObject([{ pid: process.pid, parent: process.ppid }]);
      Object.assign(process.env, { TZ: "America/New_York", LC_ALL: "en_AU.UTF-8", LC_TIME: "de_DE.UTF-8" });
      expect(readPs([process.pid])).toMatchObject([{ started: own?.[0]?.started }]);
    } finally {
      for (const [name, value] of Object.entries(before)) {
        if (value === undefined) Reflect.deleteProperty(process.env, name);
        else process.env[name] = value;
      }
    }
  },
);

test.skipIf(!hasPs)("a pid that is gone is left out, and an empty list asks nothing (needs ps)", () => {
  expect(readPs([])).toEqual([]);
  expect(readPs([2 ** 22 + 1])).toEqual([]);
});

test("the mark in an environment is the last one in the line; other words and other variables are not", () => {
  const text = [
    "    1 /sbin/launchd",
    "  512 -zsh",
    "  600 /opt/homebrew/bin/node agent.js HOLDFAST_MARK=typed PATH=/bin HOLDFAST_MARK=0a1b/issue-1/2/plan HOME=/Users/a b",
    "  601 node OTHER_HOLDFAST_MARK=no HOLDFAST_MARKED=no",
    "  602 /Applications/My App.app/Contents/MacOS/My App HOLDFAST_MARK=0a1b/issue-1",
    "  603 (node) <defunct>",
    "  604 node HOLDFAST_MARK= HOME=/",
  ].join("\n");
  expect([...parsePsVariable(text, "HOLDFAST_MARK")]).toEqual([
    [600, "0a1b/issue-1/2/plan"],
    [602, "0a1b/issue-1"],
  ]);
});

test.skipIf(!hasPs)("the environment of a running program is found (needs ps)", () => {
  expect(readPsVariables(["PATH"])?.[0]?.get(process.pid)).toBe(process.env["PATH"]);
});

test("terminals and names are read, also names with blanks; a line of another shape is not guessed", () => {
  const text = [
    "  512     1 ttys001 -zsh",
    "  600   512 ??      /Applications/My App.app/Contents/MacOS/My App",
    "",
  ].join("\n");
  expect(parsePsNames(text)).toEqual([
    { pid: 512, parent: 1, terminal: true, name: "-zsh" },
    { pid: 600, parent: 512, terminal: false, name: "/Applications/My App.app/Contents/MacOS/My App" },
  ]);
  expect(parsePsNames("ps: tty: keyword not found")).toBeNull();
});

test("working directories are read from lsof, with the bytes that it escapes", () => {
  const text = [
    "p512",
    "fcwd",
    "n/Users/a/shop",
    "p600",
    "fcwd",
    String.raw`n/tmp/caf\xc3\xa9 \\n`,
    "p601",
    "fcwd",
    "nno access",
    "",
  ];
  expect(parseLsofFolders(text.join("\n"))).toEqual([
    { pid: 512, folder: "/Users/a/shop" },
    { pid: 600, folder: "/tmp/café \\n" },
  ]);
});

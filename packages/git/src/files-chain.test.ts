import { describe, expect, test } from "vitest";
import {
  chainCommit,
  chainTree,
  entriesOf,
  formatRecord,
  missingEntries,
  parseChainCommit,
  parseEntryObject,
  parseRecord,
} from "./files-chain.ts";

const id = (digit: string): string => digit.repeat(40);

describe("the refs of a run that are sent", () => {
  test("are its snapshots in order, then kept commits, and no ref of another run", () => {
    const names = [
      "10",
      "9",
      `9-${id("a")}`,
      "9-index",
      `head/${id("b")}`,
      `side/${id("c")}`,
      `kept/${id("d")}`,
      "x",
      "files/s",
    ];
    const refs = new Map([
      ...names.map((name) => [`refs/holdfast/r-1/${name}`, id("1")] as const),
      ["refs/holdfast/r-10/1", id("2")],
    ]);
    const sent = entriesOf("r-1", refs).map(({ name }) => name);
    expect(sent).toEqual(["9", `9-${id("a")}`, "10", `kept/${id("d")}`, `side/${id("c")}`]);
  });

  test("a snapshot that the chain has under another name is not missing", () => {
    const own = [
      { name: "1", id: id("1") },
      { name: "2", id: id("2") },
    ];
    expect(missingEntries(own, [{ name: `1-${id("1")}`, id: id("1") }])).toEqual([own[1]]);
  });
});

describe("a commit of the chain", () => {
  const commit = { tree: id("e"), parents: [id("a"), id("b")], entry: { name: "7", id: id("1") } };

  test("is read as it was written", () => {
    expect(parseChainCommit(chainCommit(commit))).toEqual({ entry: commit.entry, parents: commit.parents });
  });

  test.each([
    ["another name", "../../heads/main"],
    ["a ref of the user", "head/x"],
    ["an index", "7-index"],
    ["no name", ""],
  ])("is refused with %s", (_what, name) => {
    expect(parseChainCommit(chainCommit({ ...commit, entry: { ...commit.entry, name } }))).toBeNull();
  });

  test("has its files at the same path as every other one", () => {
    const parts = { files: id("1"), index: id("2"), snapshot: id("3"), staged: id("4") };
    expect(chainTree(parts).toString("latin1")).toMatch(
      /^40000 files\0.{20}100644 index\0.{20}100644 snapshot\0.{20}40000 staged\0.{20}$/s,
    );
  });
});

test("the tag of a commit is not a snapshot", () => {
  expect(parseEntryObject("tag", Buffer.from(`object ${id("1")}\ntype commit\ntag x\n`))).toBeNull();
});

describe("the record of what the remote has", () => {
  const record = {
    remote: "https://x/y z",
    tip: id("1"),
    entries: [{ name: "1", id: id("2") }],
    problem: "network: no answer",
  };

  test("is read as it was written, with its problem on one line", () => {
    expect(parseRecord(formatRecord({ ...record, problem: "network:\n no answer" }), record.remote)).toEqual(record);
    expect(parseRecord(formatRecord({ ...record, tip: null, problem: null }), record.remote)).toMatchObject({
      tip: null,
      problem: null,
    });
  });

  test("counts for no other remote, and not if it is cut", () => {
    const none = { tip: null, entries: [], problem: null };
    expect(parseRecord(formatRecord(record), "https://x/other")).toMatchObject(none);
    expect(parseRecord(formatRecord(record).slice(0, -3), record.remote)).toMatchObject(none);
    expect(parseRecord("", record.remote)).toMatchObject(none);
  });
});

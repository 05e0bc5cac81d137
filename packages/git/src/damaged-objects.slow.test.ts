import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  chmodSync,
  existsSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { deflateSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { FilesPlane } from "@holdfast/core/checkpoint";
import { type TestRepository, createTestRepository } from "@holdfast/test-support/git/repository";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { openGitWorkspaces } from "./workspaces.ts";

let repo: TestRepository;
beforeEach(() => {
  repo = createTestRepository();
  repo.write("README.md", "committed\n");
  repo.write("src/kept.ts", "kept\n");
  repo.git("add", "-A");
  repo.git("commit", "-qm", "first");
  repo.write("src/deep/new.ts", "new\n");
  repo.write("src/kept.ts", "edited\n");
  repo.write("large.bin", randomBytes(200_000));
  repo.git("add", "src/deep/new.ts");
});
afterEach(() => repo.dispose());

const DAMAGES: readonly ((bytes: Buffer) => Buffer)[] = [
  () => Buffer.alloc(0),
  (bytes) => bytes.subarray(0, Math.max(1, bytes.length - 5)),
  (bytes) => Buffer.concat([bytes.subarray(0, bytes.length >> 1), Buffer.alloc(bytes.length >> 1)]),
  (bytes) => Buffer.concat([bytes, Buffer.from("garbage")]),
  () => deflateSync(Buffer.from("blob 5\0other")),
];

describe("an object that a power cut left damaged does not block a save of the same content", () => {
  test.each(sampleBySeed([{ name: "0" }, { name: "2" }], 1))(
    "any object, damaged in any way ($name)",
    async ({ name }) => {
      const turn = Number(name);
      const first = await snapshotAfterBoot();
      const ids = looseObjects([first.snapshot, first.index ?? "", "^HEAD^{tree}"]);
      // Three files, three directories, the user's index, and the snapshot itself.
      expect(ids.length).toBe(8);
      for (const [worktree, id] of ids.entries()) {
        const damage = DAMAGES[(worktree + turn) % DAMAGES.length] ?? (() => Buffer.alloc(0));
        const bytes = damageObject(id, damage);
        expect(await snapshotAfterBoot()).toEqual(first);
        expect(quarantine(id)).toEqual([damage(bytes)]);
      }
      repo.git("fsck", "--full");
    },
  );

  test("all objects at once, and without a private index", async () => {
    const first = await snapshotAfterBoot();
    const ids = looseObjects([first.snapshot, first.index ?? "", "^HEAD^{tree}"]);
    for (const id of ids) damageObject(id, () => Buffer.alloc(0));
    rmSync(repo.path(".git/holdfast-workspace"), { recursive: true });
    repo.git("update-ref", "-d", first.ref);
    expect(await snapshotAfterBoot()).toEqual(first);
    repo.git("fsck", "--full");
  });

  test("status and the current tree are not blocked either", async () => {
    const first = await snapshotAfterBoot();
    for (const name of ["", "src", "src/deep/new.ts"]) {
      damageObject(repo.git("rev-parse", `${first.tree}:${name}`).trim(), () => Buffer.alloc(0));
      const workspace = await (await openGitWorkspaces(repo.root)).open(repo.root);
      expect((await workspace.currentFiles()).tree).toBe(first.tree);
      expect((await workspace.look({ at: AT })).tree).toBe(first.tree);
      repo.git("fsck", "--full");
    }
  });
});

describe("an object that was damaged after it was read is not acknowledged again", () => {
  const OBJECTS = [
    ["a blob of the snapshot", (tree: string) => `${tree}:src/kept.ts`],
    ["a blob that HEAD has too", (tree: string) => `${tree}:README.md`],
    ["a large one", (tree: string) => `${tree}:large.bin`],
    ["a folder", (tree: string) => `${tree}:src`],
  ] as const;
  test.each(sampleBySeed(OBJECTS, 2))("%s, in every way, with or without another change", async (_name, address) => {
    const first = await snapshotAfterBoot();
    for (const [turn, damage] of DAMAGES.entries()) {
      damageObject(repo.git("rev-parse", address(first.tree)).trim(), damage);
      if (turn % 2 === 1) repo.write("other.txt", `change ${turn}\n`);
      const plane = await snapshot();
      expect(repo.git("cat-file", "blob", `${plane.tree}:src/kept.ts`)).toBe("edited\n");
      expect(repo.git("cat-file", "blob", `${plane.tree}:README.md`)).toBe("committed\n");
      expect(await (await openGitWorkspaces(repo.root)).has(plane)).toBe(true);
      repo.git("fsck", "--full");
    }
  });

  test("an object whose file was replaced by another of the same size and time", async () => {
    const first = await snapshotAfterBoot();
    const path = loose(repo.git("rev-parse", `${first.tree}:src/kept.ts`).trim());
    const { atime, mtime, ino } = statSync(path);
    writeFileSync(`${path}-new`, Buffer.alloc(readFileSync(path).length, 1));
    utimesSync(`${path}-new`, atime, mtime);
    renameSync(`${path}-new`, path);
    expect(statSync(path)).toMatchObject({ mtime });
    expect(statSync(path).ino).not.toBe(ino);
    const plane = await snapshot();
    expect(repo.git("cat-file", "blob", `${plane.tree}:src/kept.ts`)).toBe("edited\n");
    repo.git("fsck", "--full");
  });

  test("an unchanged object is not read again", async () => {
    const first = await snapshotAfterBoot();
    const memory = readFileSync(repo.path(".git/holdfast-workspace/index-objects-read"), "utf8");
    expect(memory).toContain(repo.git("rev-parse", `${first.tree}:README.md`).trim());
    await snapshot();
    expect(readFileSync(repo.path(".git/holdfast-workspace/index-objects-read"), "utf8")).toBe(memory);
  });

  test("a pack that was changed in place is reported, and nothing is acknowledged", async () => {
    await snapshotAfterBoot();
    repo.git("gc", "-q");
    await snapshot();
    const folder = repo.path(".git/objects/pack");
    const pack = join(folder, readdirSync(folder).find((name) => name.endsWith(".pack")) ?? "");
    const bytes = readFileSync(pack);
    bytes.fill(0, bytes.length >> 1, bytes.length - 40);
    chmodSync(pack, 0o644);
    writeFileSync(pack, bytes);
    await expect(snapshot()).rejects.toMatchObject({ code: "GIT_FAILED" });
    expect(readFileSync(pack).equals(bytes)).toBe(true);
  });
});

test("objects that the capture does not need are unchanged, damaged or not", async () => {
  const foreign = execFileSync("git", ["hash-object", "-w", "--stdin"], { cwd: repo.root, input: "x" })
    .toString()
    .trim();
  damageObject(foreign, () => Buffer.alloc(0));
  const first = await snapshotAfterBoot();
  const blob = repo.git("rev-parse", `${first.tree}:large.bin`).trim();
  damageObject(blob, () => Buffer.alloc(0));
  await snapshotAfterBoot();
  expect(existsSync(loose(foreign))).toBe(true);
  expect(readdirSync(repo.path(".git/holdfast-workspace/damaged")).map((name) => name.split("-")[0])).toEqual([blob]);
});

test("a damaged pack is reported and not changed", async () => {
  await snapshotAfterBoot();
  repo.git("gc", "-q");
  const folder = repo.path(".git/objects/pack");
  const pack = join(folder, readdirSync(folder).find((name) => name.endsWith(".pack")) ?? "");
  const bytes = readFileSync(pack);
  bytes.fill(0, 20, bytes.length - 40);
  chmodSync(pack, 0o644);
  writeFileSync(pack, bytes);
  repo.write("src/kept.ts", "edited again\n");
  await expect(snapshotAfterBoot()).rejects.toMatchObject({ code: "GIT_FAILED" });
  expect(readFileSync(pack).equals(bytes)).toBe(true);
  expect(existsSync(repo.path(".git/holdfast-workspace/damaged"))).toBe(false);
});

test("a damaged tree of HEAD does not prevent a save", async () => {
  damageObject(repo.git("rev-parse", "HEAD^{tree}").trim(), () => Buffer.alloc(0));
  const plane = await snapshotAfterBoot();
  expect(plane.artifacts.map(({ path }) => path)).toContain("README.md");
  expect(plane.artifactCount).toBe(4);
  expect(repo.git("cat-file", "blob", `${plane.tree}:README.md`)).toBe("committed\n");
});

test("objects that a snapshot shares with HEAD are repaired too: git does not sync the user's commits", async () => {
  const blob = repo.git("rev-parse", "HEAD:README.md").trim();
  damageObject(blob, () => Buffer.alloc(0));
  const plane = await snapshotAfterBoot();
  expect(repo.git("cat-file", "blob", `${plane.tree}:README.md`)).toBe("committed\n");
  expect(await (await openGitWorkspaces(repo.root)).has(plane)).toBe(true);
});

test("a HEAD whose commit is damaged is named, and the files are saved", async () => {
  const head = repo.git("rev-parse", "HEAD").trim();
  damageObject(head, () => Buffer.alloc(0));
  const plane = await snapshotAfterBoot();
  expect(plane.head).toBe(head);
  expect(repo.git("cat-file", "blob", `${plane.tree}:src/kept.ts`)).toBe("edited\n");
});

test("a HEAD whose commit is missing is named, and the files are saved", async () => {
  const head = repo.git("rev-parse", "HEAD").trim();
  rmSync(join(repo.root, ".git/objects", head.slice(0, 2), head.slice(2)));
  const plane = await snapshotAfterBoot();
  expect(plane.head).toBe(head);
  expect(repo.git("cat-file", "blob", `${plane.tree}:src/kept.ts`)).toBe("edited\n");
});

test.each([0, 1, 2])("a user's index that a power cut tore (%i) does not prevent a save or a restore", async (how) => {
  const index = repo.path(".git/index");
  const bytes = readFileSync(index);
  const first = await snapshotAfterBoot();
  writeFileSync(
    index,
    [Buffer.alloc(0), Buffer.alloc(bytes.length), bytes.subarray(0, bytes.length >> 1)][how] ?? bytes,
  );
  const torn = readFileSync(index);
  const plane = await snapshotAfterBoot();
  expect(plane.tree).toBe(first.tree);
  repo.write("README.md", "changed\n");
  const workspace = await (await openGitWorkspaces(repo.root)).open(repo.root);
  await workspace.applyRestore(await workspace.planRestore({ from: await workspace.look({ at: AT }), to: plane }));
  expect(repo.read("README.md")).toBe("committed\n");
  expect(readFileSync(index).equals(torn)).toBe(true);
});

const AT = "2026-01-02T03:04:05Z";

/** Simulates a reboot: objects read in an earlier boot are not trusted. */
async function snapshotAfterBoot(): Promise<FilesPlane> {
  rmSync(repo.path(".git/holdfast-workspace/index-objects-read"), { force: true });
  return await snapshot();
}

async function snapshot(): Promise<FilesPlane> {
  const workspace = await (await openGitWorkspaces(repo.root)).open(repo.root);
  return workspace.snapshot({ run: "r", sequence: 1, message: "m", at: AT });
}

function loose(id: string): string {
  return repo.path(join(".git/objects", id.slice(0, 2), id.slice(2)));
}

function looseObjects(range: readonly string[]): readonly string[] {
  const ids = repo
    .git("rev-list", "--objects", "--no-object-names", ...range)
    .trim()
    .split("\n");
  return ids.filter((id) => existsSync(loose(id)));
}

function damageObject(id: string, damage: (bytes: Buffer) => Buffer): Buffer {
  const bytes = readFileSync(loose(id));
  chmodSync(loose(id), 0o644);
  writeFileSync(loose(id), damage(bytes));
  return bytes;
}

function quarantine(id: string): readonly Buffer[] {
  const folder = repo.path(".git/holdfast-workspace/damaged");
  const names = readdirSync(folder).filter((name) => name.startsWith(id));
  return names.map((name) => readFileSync(join(folder, name)));
}

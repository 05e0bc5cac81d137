import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { cloudFolder, describeVolume, unsafeFileSystem, unsafeMagic, unsafeMount } from "./file-system.ts";

test("on Linux a network share, a FAT disk and a Windows drive below WSL are unsafe, by the type that statfs reports", () => {
  const types = [0x6969, 0x517b, 0xff534d42, 0xff534d42 | 0, 0xfe534d42, 0x2011bab0];
  expect(types.map((type) => unsafeMagic(type, "6.1.0"))).toEqual(["nfs", "smb", "cifs", "cifs", "smb2", "exfat"]);
  expect([0xef53, 0x01021994, 0x58465342, 0x65735546].map((type) => unsafeMagic(type, "6.1.0"))).toEqual([
    null,
    null,
    null,
    null,
  ]);
  expect(unsafeMagic(0x01021997, "5.15.90.1-microsoft-standard-WSL2")).toContain("Windows");
  expect(unsafeMagic(0x01021997, "4.4.0")).toBeNull();
});

test("on macOS the innermost mount decides", () => {
  const mounts = [
    "/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)",
    "/dev/disk3s5 on /System/Volumes/Data (apfs, local, journaled, nobrowse)",
    "//guest@nas/share on /Volumes/My (old) share (smbfs, nodev, nosuid, mounted by me)",
    "/dev/disk4s1 on /Volumes/STICK (exfat, local, nodev, nosuid, noowners)",
    "/dev/disk5s1 on /Volumes/STICK/inner (apfs, local)",
  ].join("\n");
  const types = [
    "/Users/me/x",
    "/Volumes/My (old) share/x",
    "/Volumes/STICK",
    "/Volumes/STICK/inner/x",
    "/Volumes/STICK2",
  ];
  expect(types.map((folder) => unsafeMount(mounts, folder))).toEqual([null, "smbfs", "exfat", null, null]);
  expect(unsafeMount("", "/x")).toBeNull();
});

test("a folder that does not exist yet is on the file system of the one above it", () => {
  expect(unsafeFileSystem(join(scratchDirectory(onTestFinished), "a", "b"))).toBeNull();
});

test("a folder that a cloud service syncs is known by its path", () => {
  const paths = [
    "/Users/a/Library/Mobile Documents/com~apple~CloudDocs/shop",
    "/Users/a/Library/CloudStorage/OneDrive-Contoso/shop",
    "/Users/a/Library/CloudStorage/Dropbox/shop",
    "/home/a/Dropbox (Personal)/shop",
    "/mnt/c/Users/a/OneDrive - Contoso/shop",
    "/home/a/dropbox-client/shop",
    "/home/a/src/OneDriveTools",
    "/Users/a/Mobile Documents/shop",
  ];
  expect(paths.map(cloudFolder)).toEqual([
    "iCloud Drive",
    "OneDrive",
    "Dropbox",
    "Dropbox",
    "OneDrive",
    null,
    null,
    null,
  ]);
});

test("the volume of a scratch folder has a type and is safe", () => {
  expect(describeVolume(join(scratchDirectory(onTestFinished), "new"))).toEqual({
    type: expect.stringMatching(/./),
    unsafe: false,
    ignoresCase: expect.any(Boolean),
    cloud: null,
  });
});

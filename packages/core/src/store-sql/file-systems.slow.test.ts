import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { layoutOf } from "./sqlite-files.ts";
import { openSqliteStore } from "./open.ts";
import { leasedRun, save } from "@holdfast/testing/store-contract/harness";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";

/** Mounts need rights that not every machine gives; inside a mount namespace of their own they leave no trace. */
function inNamespace(
  script: string,
  args: readonly string[],
): { readonly ok: boolean; readonly stdout: string; readonly stderr: string } {
  const { status, stdout, stderr } = spawnSync("unshare", ["-m", "sh", "-ec", script, "sh", ...args], {
    encoding: "utf8",
    timeout: 600_000,
  });
  return { ok: status === 0, stdout, stderr };
}

const canMount = inNamespace("mount -t tmpfs tmpfs /mnt", []).ok;
const child = (name: string): string => join(import.meta.dirname, "../../../test-support/src/store-processes", name);

describe.skipIf(!canMount)("a store on file systems of their own (skipped where mounting is not permitted)", () => {
  test("a full disk refuses cleanly, all acknowledged data is kept, and a signal is sent with the help of the reserve", () => {
    const mount = scratchDirectory(onTestFinished);
    for (const size of ["300k", "700k", "1500k"]) {
      const script = `mount -t tmpfs -o size=${size} tmpfs "$1"; exec "$2" "$3" "$1/store"`;
      const { ok, stdout, stderr } = inNamespace(script, [mount, process.execPath, child("full-disk.ts")]);
      expect(ok, stderr).toBe(true);
      const result: unknown = JSON.parse(stdout);
      expect(result).toMatchObject({ refusal: "DISK_FULL", problems: 0 });
      const { acknowledged, latest, reread, signal, received } = Object(result);
      expect(acknowledged).toBeGreaterThan(3);
      expect([latest, reread]).toEqual([acknowledged, acknowledged]);
      // A disk of this size has a reserve, so a pause can be sent; on a smaller one it is sent or refused, never lost.
      if (size === "1500k") expect(signal).toBe("sent");
      expect([signal, received]).toEqual(received === 1 ? ["sent", 1] : ["DISK_FULL", 0]);
    }
  });

  test("a store on a read-only file system can be read, with and without a log that was not written back", async () => {
    const directory = join(scratchDirectory(onTestFinished), "store");
    const store = await openSqliteStore({ directory });
    onTestFinished(() => store.close());
    const lease = await leasedRun(store);
    for (let n = 1; n <= 4; n++) await save(store, lease, { values: { n } });
    for await (const event of store.verify()) expect(event.kind).not.toBe("problem");
    const logged = scratchDirectory(onTestFinished);
    cpSync(directory, logged, { recursive: true });
    rmSync(layoutOf(logged).sharedMemory);
    const settled = scratchDirectory(onTestFinished);
    cpSync(directory, settled, { recursive: true });
    await (await openSqliteStore({ directory: settled })).close();
    for (const source of [logged, settled]) {
      const mount = scratchDirectory(onTestFinished);
      mkdirSync(mount, { recursive: true });
      const script = 'mount --bind "$1" "$2"; mount -o remount,bind,ro "$2"; exec "$3" "$4" "$2"';
      const { ok, stdout, stderr } = inNamespace(script, [source, mount, process.execPath, child("read-only.ts")]);
      expect(ok, stderr).toBe(true);
      expect(JSON.parse(stdout)).toEqual({ latest: 4, refusal: "STORE_READ_ONLY", problems: 0 });
    }
  });
});

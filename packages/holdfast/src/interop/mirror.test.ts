import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import type { Encoded } from "@holdfast/formats/format";
import { loopJson } from "@holdfast/formats/loop-json";
import { preserveExisting } from "@holdfast/workflows/layout-files";
import { openHoldfast } from "../open.ts";

test("a mirror of documents writes nothing out of the repository through a link", async () => {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-mirror-"));
  const [root, outside] = [join(directory, "root"), join(directory, "outside")];
  for (const place of [root, outside]) mkdirSync(place);
  const holdfast = await openHoldfast({ cwd: root, store: join(directory, "store") });
  onTestFinished(async () => {
    await holdfast.close();
    rmSync(directory, { recursive: true });
  });
  const handle = await holdfast.createRun({ id: "r", workflow: "impl", work: { kind: "issue", number: 7 } });
  await handle.save({ trigger: "manual", name: "one", planes: emptyPlanes() });
  const mirror = async () =>
    await (await holdfast.formats.mirror({ run: "r", to: "loop-json", directory: root })).catchUp();
  symlinkSync(outside, join(root, ".aiwg"));
  await expect(mirror()).rejects.toMatchObject({ code: "IO_FAILED", message: expect.stringContaining("link") });
  expect(readdirSync(outside)).toEqual([]);
});

test("nor does the copy of a file at the path of another loop's", () => {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-mirror-"));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  const [root, outside] = [join(directory, "root"), join(directory, "outside")];
  for (const place of [root, outside]) mkdirSync(place);
  const [mine, evil] = [encodedLoop("mine"), encodedLoop("evil")];
  // A clone may hold a file that claims to belong to another loop, whose directory is a link.
  const path = join(root, mine.path);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, gzipSync(evil.bytes));
  const second = join(root, evil.elsewhere ?? "");
  mkdirSync(dirname(dirname(second)), { recursive: true });
  symlinkSync(outside, dirname(second));
  const copy = () => preserveExisting({ to: "loop-json", root, path, encoded: mine });
  expect(copy).toThrow(expect.objectContaining({ code: "IO_FAILED", message: expect.stringContaining("link") }));
  expect(readdirSync(outside)).toEqual([]);
  expect(gunzipSync(readFileSync(path)).equals(evil.bytes)).toBe(true);
});

function encodedLoop(loop: string): Encoded {
  const golden = JSON.parse(
    readFileSync(join(import.meta.dirname, "../../../formats/golden/loop-json/least.json"), "utf8"),
  );
  const document = { ...golden, loop_id: loop, checkpoint_id: `cp-${loop}-0-20260101000000000` };
  const bytes = new TextEncoder().encode(JSON.stringify(document));
  const [checkpoint] = loopJson.decode({ path: "document.json", bytes, compression: "none" }).checkpoints;
  if (checkpoint === undefined) throw new Error("the document holds no checkpoint");
  return loopJson.encode(checkpoint);
}

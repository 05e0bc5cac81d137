import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openHoldfast } from "../../app.ts";
import { emptyPlanes } from "../../core/checkpoint/checkpoint.ts";

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
    await (await holdfast.foreign.mirror({ run: "r", to: "loop-json", directory: root })).catchUp();
  symlinkSync(outside, join(root, ".aiwg"));
  await expect(mirror()).rejects.toMatchObject({ code: "IO_FAILED", message: expect.stringContaining("link") });
  expect(readdirSync(outside)).toEqual([]);
});

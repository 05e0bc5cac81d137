import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { loopDisk } from "./mounted.ts";
import type { DiskKind } from "./mounted.ts";
import { startNextBoot } from "./next-boot.ts";
import { countedIn, record } from "./record.ts";
import { scratchFolder } from "./scratch.ts";
import type { Chance } from "./seed.ts";
import type { Subject } from "./subject.ts";
import type { Bad, Swept } from "./sweep.ts";
import { chooseNumbers, judgeSafely } from "./sweep.ts";
import { trace } from "./traced.ts";
import { readWorld, writeWorld } from "./world.ts";

/**
 * The kernel's own power cut: at operation N the file system is shut down without flushing its log, everything is
 * killed, and the disk is mounted again. Each case gets a fresh disk, because a cut one keeps its history; always at
 * the same path.
 */
export async function sweepRealPower(params: {
  readonly kind: DiskKind;
  readonly subject: Subject;
  readonly chance: Chance;
  readonly cases: number;
}): Promise<Swept> {
  const { subject, chance } = params;
  const folder = scratchFolder(params.kind);
  const root = join(folder, "mount", "world");
  const onDisk = async <T>(
    work: (disk: { readonly path: string; reboot(): Promise<void> }) => Promise<T>,
  ): Promise<T> => {
    const disk = await loopDisk(params.kind, folder);
    if (typeof disk === "string") throw new Error(disk);
    try {
      mkdirSync(root);
      return await work(disk);
    } finally {
      await disk.unmount();
    }
  };
  const start = await onDisk(async () => {
    const earlier = await subject.prepare(root);
    const before = readWorld(root);
    return { earlier, before, recording: await record({ command: await subject.command(root), root }) };
  });
  const points = chooseNumbers(start.recording, chance, params.cases);
  const bad: Bad[] = [];
  for (const at of points) {
    const phase = chance.coin() ? "before" : "after";
    await onDisk(async (disk) => {
      writeWorld(root, start.before);
      await disk.reboot();
      const cut = await trace({
        command: await subject.command(root),
        root,
        fault: { at, do: "shutdown", mount: disk.path, phase },
      });
      await disk.reboot();
      startNextBoot(root);
      const printed = cut.stdout.split("\n").filter((line) => line !== "");
      const problems = [...(await judgeSafely(subject.judge(start.earlier), { root, printed }))];
      if (cut.code === 0 && countedIn(cut) >= at) problems.push("the power was not cut");
      if (problems.length > 0)
        bad.push({ where: `power cut ${phase} operation ${at} of ${countedIn(start.recording)}`, problems });
    });
  }
  return { cases: points.length, states: points.length, bad };
}

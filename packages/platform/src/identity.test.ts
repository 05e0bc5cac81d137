import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { canSignal, livenessOf, processIdentity } from "./identity.ts";

const self = processIdentity();
const OTHER_BOOT = "00000000-0000-0000-0000-000000000000/pid:[1]";
/** A process in another container of the same kernel. */
const contained = { ...self, boot: `${self.boot?.split("/")[0]}/pid:[1]` };

test("a process knows itself to be alive", () => {
  expect(self.pid).toBe(process.pid);
  const onMac = process.platform === "darwin";
  expect(self.started).toMatch(onMac ? /^\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}$/ : /^\d+$/);
  expect(self.boot).toMatch(onMac ? /^[0-9A-F-]{36}\/macos$/ : /^[0-9a-f-]{36}\/pid:\[\d+\]$/);
  expect(livenessOf(self, self)).toBe("alive");
});

test("a process that ended is dead, also before its parent has reaped it", async () => {
  const { pid } = spawnSync(process.execPath, ["--version"]);
  expect(livenessOf({ ...self, pid, started: "1" }, self)).toBe("dead");
  const child = spawn(process.execPath, ["-e", "process.stdin.resume()"]);
  await once(child, "spawn");
  const living = { ...self, pid: child.pid ?? 0, started: "1" };
  expect(livenessOf(living, self)).toBe("dead");
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(livenessOf({ ...living, started: null }, self)).toBe("dead");
});

test("a pid reused by a later process is dead, and so is a process of an earlier boot", () => {
  expect(livenessOf({ ...self, started: "1" }, self)).toBe("dead");
  expect(livenessOf({ ...self, boot: OTHER_BOOT }, self)).toBe("dead");
});

test("a process that cannot be inspected is unknown", () => {
  expect(livenessOf({ ...self, host: "elsewhere", boot: OTHER_BOOT }, self)).toBe("unknown");
  expect(livenessOf(contained, self)).toBe("unknown");
  expect(livenessOf({ ...self, boot: null }, self)).toBe("unknown");
  expect(livenessOf({ ...self, started: null }, self)).toBe("unknown");
});

test("the same boot is the same machine, whatever its host name is now", () => {
  const before = { ...self, host: "another-network.local" };
  expect(livenessOf(before, self)).toBe("alive");
  expect(livenessOf({ ...before, started: "1" }, self)).toBe("dead");
  expect(canSignal(before, self)).toBe(true);
});

test("a held lock shows a live owner; a free lock shows a dead owner of the same kernel only", () => {
  const far = { ...self, host: "elsewhere", boot: OTHER_BOOT };
  for (const owner of [self, contained, far, { ...self, started: null }, { ...self, boot: null }])
    expect(livenessOf(owner, self, "held")).toBe("alive");
  expect(livenessOf(contained, self, "free")).toBe("dead");
  expect(livenessOf({ ...self, started: null }, self, "free")).toBe("dead");
  expect(livenessOf(far, self, "free")).toBe("unknown");
  expect(livenessOf({ ...self, boot: null, started: null }, { ...self, boot: null }, "free")).toBe("dead");
  // The file was replaced or its lock dropped: pid and start time still show the process.
  expect(livenessOf(self, self, "free")).toBe("alive");
  for (const lock of ["absent", "unknown"] as const) expect(livenessOf(contained, self, lock)).toBe("unknown");
});

test("a live owner in another container is not signalled: its pid is that of another process here", () => {
  expect(canSignal(contained, self)).toBe(false);
  expect(canSignal({ ...self, host: "elsewhere", boot: OTHER_BOOT }, self)).toBe(false);
  expect(canSignal({ ...self, started: "1" }, self)).toBe(false);
});

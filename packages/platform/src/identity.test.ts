import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { livenessOf, processIdentity } from "./identity.ts";

const self = processIdentity();

test("a process knows itself to be alive", () => {
  expect(self.pid).toBe(process.pid);
  expect(self.started).toMatch(/^\d+$/);
  expect(self.boot).toMatch(/^[0-9a-f-]{36}\/pid:\[\d+\]$/);
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
  expect(livenessOf({ ...self, boot: "00000000-0000-0000-0000-000000000000/pid:[1]" }, self)).toBe("dead");
});

test("a process that cannot be inspected is unknown", () => {
  expect(livenessOf({ ...self, host: "elsewhere" }, self)).toBe("unknown");
  expect(livenessOf({ ...self, boot: `${self.boot?.split("/")[0]}/pid:[1]` }, self)).toBe("unknown");
  expect(livenessOf({ ...self, boot: null }, self)).toBe("unknown");
  expect(livenessOf({ ...self, started: null }, self)).toBe("unknown");
});

// Loaded before a program, which then takes itself for a process on another machine: another host name and another kernel.

import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import os from "node:os";

const BOOT = "/proc/sys/kernel/random/boot_id";
const real: unknown = fs.readFileSync;
Reflect.set(os, "hostname", () => "elsewhere");
Reflect.set(fs, "readFileSync", (...args: readonly unknown[]): unknown =>
  args[0] === BOOT ? "11111111-2222-3333-4444-555555555555\n" : Reflect.apply(Object(real), fs, args),
);
syncBuiltinESMExports();

"use strict";
// Makes this Node believe that it runs on macOS. Programs that load native code for Linux keep their platform: vitest
// with its bundler, and the build.
const path = require("node:path");
const program = path.basename(process.argv[1] ?? "");
if (program !== "vitest.mjs" && program !== "build.mjs") {
  Object.defineProperty(process, "platform", { value: "darwin" });
}
// Children are started through the wrapper that requires this file again.
process.execPath = path.join(__dirname, "bin", "node");

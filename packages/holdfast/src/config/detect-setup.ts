/** Detects, from lockfiles and manifests, the command that makes a fresh worktree of a project usable. It runs nothing. */
import { join } from "node:path";
import { asRecord, parseObject } from "@holdfast/core/json";
import { readRegularFile } from "@holdfast/platform/files";

/** A command that a file of the project suggests. */
export interface GuessedCommand {
  readonly command: string;
  /** The file and entry that the guess is based on. */
  readonly why: string;
}

/** Returns "" for a missing file. */
type Read = (name: string) => string;

/** Reads files of the project. */
export function readerOf(root: string): Read {
  return (name) => {
    try {
      const file = readRegularFile({ path: join(root, name), maxBytes: MAX_BYTES });
      return file.kind === "read" ? file.bytes.toString("utf8") : "";
    } catch {
      return "";
    }
  };
}

/** Lockfiles of large projects have many megabytes. */
const MAX_BYTES = 64 * 1024 * 1024;

/** The package.json of the project; empty if there is none or it does not parse. */
export function readPackage(read: Read): Readonly<Record<string, unknown>> {
  return parseObject(read("package.json")) ?? {};
}

/** null: no file names anything to fetch. A project with several kinds gets one command for each, joined by `&&`. */
export function guessSetup(read: Read): GuessedCommand | null {
  const found = [ofSubmodules(read), ofLfs(read), ofJavaScript(read), ofPython(read), ofRust(read), ofGo(read)].filter(
    (guess) => guess !== null,
  );
  if (found.length === 0) return null;
  return {
    command: found.map(({ command }) => command).join(" && "),
    why: `there is ${found.map(({ why }) => why).join(" and ")}`,
  };
}

/**
 * A worktree begins without its submodules, and with the pointers of LFS files. Git itself refuses what a hostile
 * .gitmodules could start: the file and ext protocols, `update = !command`, and URLs and paths that look like options.
 */
function ofSubmodules(read: Read): GuessedCommand | null {
  return /^\s*\[submodule\s/m.test(read(".gitmodules"))
    ? { command: "git submodule update --init --recursive", why: "a .gitmodules" }
    : null;
}

function ofLfs(read: Read): GuessedCommand | null {
  return /^[^#\n]*\sfilter=lfs(?:\s|$)/m.test(read(".gitattributes"))
    ? { command: "git lfs pull", why: "a .gitattributes with LFS files" }
    : null;
}

function ofJavaScript(read: Read): GuessedCommand | null {
  if (read("package.json") === "") return null;
  const locked = findLock(read);
  if (locked !== null) return { command: locked.install, why: `a ${locked.lock}` };
  const { dependencies, devDependencies } = readPackage(read);
  const names = [dependencies, devDependencies].flatMap((one) => Object.keys(asRecord(one)));
  // Without the flag, npm would write a lockfile, and the run would commit it.
  return names.length === 0
    ? null
    : { command: "npm install --no-package-lock", why: "a package.json with dependencies" };
}

interface PackageManager {
  readonly lock: string;
  /** Installs exactly what the lockfile names. */
  readonly install: string;
  /** Goes before the name of a script. */
  readonly run: string;
}

/** The package manager whose lockfile a JavaScript project has; null: none. */
export function findLock(read: Read): PackageManager | null {
  const found = LOCKS.find(({ lock }) => read(lock) !== "") ?? null;
  // Yarn 2 and newer write this block into the lockfile; Yarn 1 does not know their flag.
  if (found?.run === "yarn" && /^__metadata:/m.test(read(found.lock)))
    return { ...found, lock: "yarn.lock of Yarn 2 or newer", install: "yarn install --immutable" };
  return found;
}

const LOCKS: readonly PackageManager[] = [
  { lock: "pnpm-lock.yaml", install: "pnpm install --frozen-lockfile", run: "pnpm" },
  { lock: "yarn.lock", install: "yarn install --frozen-lockfile", run: "yarn" },
  { lock: "bun.lock", install: "bun install --frozen-lockfile", run: "bun run" },
  { lock: "package-lock.json", install: "npm ci", run: "npm" },
  { lock: "npm-shrinkwrap.json", install: "npm ci", run: "npm" },
];

function ofPython(read: Read): GuessedCommand | null {
  if (read("uv.lock") !== "") return { command: "uv sync --frozen", why: "a uv.lock" };
  if (read("requirements.txt") === "") return null;
  return {
    command: `python3 -m venv .venv && ${VENV_PYTHON} -m pip install -r requirements.txt`,
    why: "a requirements.txt",
  };
}

/** Python in the virtual environment that the proposed set-up makes. */
export const VENV_PYTHON = ".venv/bin/python";

function ofRust(read: Read): GuessedCommand | null {
  if (read("Cargo.toml") === "") return null;
  return read("Cargo.lock") === ""
    ? { command: "cargo fetch", why: "a Cargo.toml" }
    : { command: "cargo fetch --locked", why: "a Cargo.lock" };
}

function ofGo(read: Read): GuessedCommand | null {
  return read("go.mod") === "" ? null : { command: "go mod download", why: "a go.mod" };
}

// The toolchain of a run: its lockfiles, set-up, and the versions of Node, git and agents. Checkpoints record it, and resume and restore
// name what differs.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileKind, readRegularFile } from "@holdfast/platform/files";
import { gitVersion } from "@holdfast/platform/git-command";
import type { Toolchain } from "./checkpoint.ts";
import { type TypeOf, dictionary, list, object, sha256, text } from "./json.ts";

export const FACTS_SHAPE = object({
  commands: list(text),
  /** Digests by path. */
  lockfiles: dictionary(text),
  /** Version of Node, without the `v`. */
  node: text,
});
/** What a set-up depends on. */
export type SetupFacts = TypeOf<typeof FACTS_SHAPE>;

/** The programs of this process. The lockfiles, and the versions of agents that it has not asked, are those of `before`. */
export function readPrograms(
  { commands, agents }: { readonly commands: readonly string[]; readonly agents: Toolchain["agents"] },
  before?: Toolchain,
): Toolchain {
  return {
    lockfiles: before?.lockfiles ?? {},
    setup: commands.length === 0 ? null : sha256(JSON.stringify(commands)).slice(0, 16),
    node: process.versions.node,
    git: gitVersion(),
    agents: { ...before?.agents, ...agents },
  };
}

/**
 * The programs that differ, such as `Node 22.1.0 → 24.2.0`. Lockfiles are files of the run: what changed in them is among its changes,
 * and the set-up names them when it runs again. What is unknown or absent on one side is not compared.
 */
export function compareToolchains(before: Toolchain, now: Toolchain): readonly string[] {
  const moved = (name: string, was: string | null | undefined, is: string | null | undefined): readonly string[] =>
    was == null || is == null || was === is ? [] : [`${name} ${was} → ${is}`];
  return [
    ...moved("Node", before.node, now.node),
    ...moved("git", before.git, now.git),
    ...Object.keys(before.agents).flatMap((name) => moved(name, before.agents[name], now.agents[name])),
    ...(before.setup === null || now.setup === null || before.setup === now.setup
      ? []
      : ["the set-up commands changed"]),
  ];
}

export function differencesText(differences: readonly string[]): string {
  return `Since the last checkpoint: ${differences.join("; ")}`;
}

/** The differences, in the order in which a user would look for them. */
export function compareFacts(before: SetupFacts, now: SetupFacts): readonly string[] {
  const paths = [...new Set([...Object.keys(before.lockfiles), ...Object.keys(now.lockfiles)])].toSorted();
  const lockfiles = paths.flatMap((path) => {
    const [was, is] = [before.lockfiles[path], now.lockfiles[path]];
    if (was === is) return [];
    return [`${path} ${was === undefined ? "is new" : is === undefined ? "is gone" : "changed"}`];
  });
  return [
    ...lockfiles,
    ...(JSON.stringify(before.commands) === JSON.stringify(now.commands) ? [] : ["the set-up commands changed"]),
    ...(before.node === now.node ? [] : [`Node ${before.node} → ${now.node}`]),
  ];
}

export function readFacts(root: string, commands: readonly string[]): SetupFacts {
  const paths = folders(root).flatMap((folder) => {
    const isThere = (name: string): boolean => fileKind(join(root, folder, name)) === "file";
    const found = LOCKFILES.filter(isThere);
    // Without a lockfile here or at the root, the manifest is all that names the dependencies.
    const isLocked = (lock: string): boolean => found.includes(lock) || fileKind(join(root, lock)) === "file";
    const manifests = MANIFESTS.filter(({ name, locks }) => isThere(name) && !locks.some(isLocked));
    return [...found, ...manifests.map(({ name }) => name)].map((name) => join(folder, name));
  });
  const digests = paths.flatMap((path) => {
    const file = readRegularFile({ path: join(root, path), maxBytes: MAX_LOCKFILE_BYTES });
    return file.kind === "read" ? [[path, sha256(file.bytes).slice(0, 16)] as const] : [];
  });
  return { commands, lockfiles: Object.fromEntries(digests), node: process.versions.node };
}

const JS_LOCKS = ["package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb"];
const PYTHON_LOCKS = ["uv.lock", "poetry.lock", "Pipfile.lock", "requirements.txt"];
const LOCKFILES: readonly string[] = [
  ...JS_LOCKS,
  ...PYTHON_LOCKS,
  ".gitmodules",
  "Cargo.lock",
  "go.sum",
  "Gemfile.lock",
  "composer.lock",
];
const MANIFESTS: readonly { readonly name: string; readonly locks: readonly string[] }[] = [
  { name: "package.json", locks: JS_LOCKS },
  { name: "pyproject.toml", locks: PYTHON_LOCKS },
  { name: "Cargo.toml", locks: ["Cargo.lock"] },
  { name: "go.mod", locks: ["go.sum"] },
];
const MAX_LOCKFILE_BYTES = 64 * 1024 * 1024;

/** The root ("") and the folders down to two levels below it: where a repository with several packages has its lockfiles. */
function folders(root: string): readonly string[] {
  const found = [""];
  for (let at = 0; at < found.length && found.length < MAX_FOLDERS; at += 1) {
    const folder = found[at] ?? "";
    if (folder.split("/").length === 2) continue;
    found.push(...subfolders(root, folder));
  }
  return found.slice(0, MAX_FOLDERS);
}

const MAX_FOLDERS = 500;

function subfolders(root: string, folder: string): readonly string[] {
  return entriesOf(root, folder)
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith(".") && !SKIPPED.has(entry.name))
    .map(({ name }) => join(folder, name))
    .toSorted();
}

const SKIPPED: ReadonlySet<string> = new Set(["node_modules", "vendor", "target", "venv", "dist", "build"]);

/** Everything at the root and beside a lockfile or manifest. */
export function listEntries(root: string): readonly string[] {
  const named = folders(root).filter(
    (folder) => folder === "" || LOCK_OR_MANIFEST.some((name) => fileKind(join(root, folder, name)) === "file"),
  );
  return named.flatMap((folder) => entriesOf(root, folder).map(({ name }) => join(folder, name))).toSorted();
}

const LOCK_OR_MANIFEST = [...LOCKFILES, ...MANIFESTS.map(({ name }) => name)];

function entriesOf(root: string, folder: string): readonly { readonly name: string; isDirectory(): boolean }[] {
  try {
    return readdirSync(join(root, folder), { withFileTypes: true });
  } catch {
    // The folder went away, or cannot be read: it holds nothing that can be compared.
    return [];
  }
}

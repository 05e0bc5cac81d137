// Finds the files that git ignores in a worktree and that would be lost with it. Neither a commit nor a checkpoint has them.

import { type Dirent, lstatSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { readRegularFile } from "@holdfast/platform/files";
import { copyDigest } from "./copy-files.ts";
import { readSetupTraces } from "./prepare-worktree.ts";
import type { Workspace } from "./workspace.ts";

/** What Holdfast knows about ignored files of a worktree. */
export interface IgnoredFacts {
  /** Directories that a set-up made. */
  readonly made: readonly string[];
  /** Files that `workspace.copy` wrote and that have not changed since. */
  readonly copied: readonly string[];
}

/**
 * Whether this ignored path can be made again: tools write it, a set-up made it, or it is an unchanged copy. Any other ignored file
 * may be of the user, such as an `.env` that was put into the worktree by hand. Everything below such a directory is like it.
 */
export function isReproducible(path: string, { made, copied }: IgnoredFacts): boolean {
  const names = path.split("/").filter((name) => name !== "");
  const plain = names.join("/");
  const isBelow = (directory: string): boolean => plain === directory || plain.startsWith(`${directory}/`);
  return names.some((name) => TOOL_NAMES.has(name)) || made.some(isBelow) || copied.includes(plain);
}

/** Dependencies, caches and results of builds, by the names that package managers, compilers and test tools give them; and `.tmp`, ours. */
const TOOL_NAMES: ReadonlySet<string> = new Set(
  `.tmp node_modules .pnpm-store .yarn bower_components vendor .bundle Pods
  venv .venv __pycache__ .pytest_cache .mypy_cache .ruff_cache .tox .nox .eggs .hypothesis
  target dist build obj _build .gradle .dart_tool .terraform .build DerivedData
  .next .nuxt .svelte-kit .astro .angular .turbo .parcel-cache .vite .cache .eslintcache .stylelintcache
  coverage .coverage .nyc_output htmlcov .DS_Store`.split(/\s+/),
);

/** Of these, the ones in which tools keep clones of dependencies, and people do not commit. */
const CLONE_NAMES: ReadonlySet<string> = new Set([".build", "DerivedData", ".terraform", ".bundle", ".yarn", ".cache"]);

/**
 * The ignored files that only this worktree has, at most 1000. Also repositories below what can be made again, such as `vendor/`: each
 * ends with a slash, and its commits may be nowhere else. `ignored`: as git lists them, a directory with a slash at its end.
 */
export function listIgnoredWork(
  workspace: Pick<Workspace, "root" | "privateDirectory">,
  ignored: readonly string[],
): readonly string[] {
  const { root } = workspace;
  const traces = readSetupTraces(workspace);
  const facts: IgnoredFacts = {
    made: traces.made.filter((path) => lstatSync(join(root, path), { throwIfNoEntry: false })?.isDirectory() === true),
    copied: Object.entries(traces.copied).flatMap(([path, digest]) => (digestOf(root, path) === digest ? [path] : [])),
  };
  const found: string[] = [];
  const queue = [...ignored];
  for (let at = 0; at < queue.length && found.length < MAX_FILES; at += 1) {
    const path = queue[at] ?? "";
    if (isReproducible(path, facts)) {
      if (path.endsWith("/")) found.push(...findRepositories(root, path));
    } else if (path.endsWith("/")) queue.push(...entriesOf(root, path));
    else found.push(path);
  }
  return found;
}

/** The repositories in this directory and below it. They are not searched themselves. */
function findRepositories(root: string, directory: string): readonly string[] {
  const found: string[] = [];
  const queue = [directory];
  for (let path = queue.pop(); path !== undefined && found.length < MAX_FILES; path = queue.pop()) {
    const entries = entriesOf(root, path);
    const has = (name: string): boolean => entries.includes(`${path}${name}`) || entries.includes(`${path}${name}/`);
    if (CLONE_NAMES.has(basename(path))) continue;
    if (has(".git") || (has("HEAD") && has("objects") && has("refs"))) found.push(path);
    else queue.push(...entries.filter((entry) => entry.endsWith("/")));
  }
  return found;
}

const MAX_FILES = 1000;

/** A directory that cannot be read counts as a file: what it holds is unknown. */
function entriesOf(root: string, directory: string): readonly string[] {
  try {
    const entries: Dirent[] = readdirSync(join(root, directory), { withFileTypes: true });
    return entries.map((entry) => `${directory}${entry.name}${entry.isDirectory() ? "/" : ""}`);
  } catch {
    return [directory.replace(/\/$/, "")];
  }
}

function digestOf(root: string, path: string): string | null {
  const file = readRegularFile({ path: join(root, path), maxBytes: MAX_BYTES });
  return file.kind === "read" ? copyDigest(lstatSync(join(root, path)).mode & 0o777, file.bytes) : null;
}

const MAX_BYTES = 16 * 1024 * 1024;

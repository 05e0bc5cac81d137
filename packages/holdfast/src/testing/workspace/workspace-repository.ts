import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** A real repository in a temporary folder, for suites of anything that meets git. */
export interface TestRepository {
  readonly root: string;
  /** Plain git as a user would run it, under a home of its own. Returns what it printed. */
  git(...args: readonly string[]): string;
  write(path: string, content: string | Uint8Array): void;
  read(path: string): string;
  remove(path: string): void;
  path(path: string): string;
  dispose(): void;
}

export function createTestRepository(options: { readonly init?: readonly string[] } = {}): TestRepository {
  const base = realpathSync(mkdtempSync(join(tmpdir(), "holdfast-workspace-")));
  const root = join(base, "repo");
  mkdirSync(root);
  const repository = testRepositoryAt(root, () => rmSync(base, { recursive: true, force: true }));
  repository.git("init", "-q", "-b", "main", ...(options.init ?? []));
  return repository;
}

export function testRepositoryAt(root: string, dispose: () => void = () => undefined): TestRepository {
  const path = (name: string): string => join(root, name);
  return {
    root,
    git: (...args) =>
      execFileSync("git", [...IDENTITY, ...args], {
        cwd: root,
        env: userEnvironment(root),
        encoding: "utf8",
        stdio: ["ignore", "pipe", "pipe"],
      }),
    write(name, content) {
      mkdirSync(dirname(path(name)), { recursive: true });
      writeFileSync(path(name), content);
    },
    read: (name) => readFileSync(path(name), "utf8"),
    remove: (name) => rmSync(path(name), { recursive: true }),
    path,
    dispose,
  };
}

/**
 * Everything of the user's that Holdfast promises not to touch, as one value: index bytes, HEAD, refs outside refs/holdfast/,
 * reflogs, stash, config, hooks, info files, locks. Equal before and after, or the promise is broken.
 */
export function userState(gitDir: string): Readonly<Record<string, string>> {
  const state: Record<string, string> = {};
  const visit = (folder: string, name: string): void => {
    for (const entry of readdirSync(join(folder, name), { withFileTypes: true })) {
      const path = join(name, entry.name);
      if (OURS.some((own) => path === own || path.startsWith(`${own}/`)) || isWorktreeOfOurs(folder, path)) continue;
      if (entry.isDirectory()) visit(folder, path);
      else state[path] = fingerprint(join(folder, path));
    }
  };
  visit(gitDir, "");
  return state;
}

/** Every file below a folder with type, permissions and content; `.git` is left out. */
export function readWorktree(root: string): Readonly<Record<string, string>> {
  const state: Record<string, string> = {};
  const visit = (folder: Buffer, name: string): void => {
    for (const entry of readdirSync(folder, { withFileTypes: true, encoding: "buffer" })) {
      const raw = entry.name.toString("latin1");
      if (raw === ".git") continue;
      const path = Buffer.concat([folder, Buffer.from("/"), entry.name]);
      const label = name === "" ? raw : `${name}/${raw}`;
      if (entry.isDirectory()) visit(path, label);
      else state[label] = fingerprint(path);
    }
  };
  visit(Buffer.from(root), "");
  return state;
}

const IDENTITY = ["-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "protocol.file.allow=always"];
const OURS = ["objects", "refs/holdfast", "logs/refs/holdfast", "holdfast-workspace", "holdfast-run"];

function isWorktreeOfOurs(gitDir: string, path: string): boolean {
  return /^worktrees\/[^/]+\/(?:holdfast-[^/]+)$/.test(path) || existsSync(join(gitDir, path, "holdfast-run"));
}

function fingerprint(path: string | Buffer): string {
  const stat = lstatSync(path);
  if (stat.isSymbolicLink()) return `link ${readlinkSync(path, { encoding: "buffer" }).toString("latin1")}`;
  if (!stat.isFile()) return "special";
  return `${(stat.mode & 0o777).toString(8)} ${createHash("sha256").update(readFileSync(path)).digest("hex")}`;
}

function userEnvironment(root: string): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("GIT_"));
  return {
    ...Object.fromEntries(kept),
    HOME: dirname(root),
    XDG_CONFIG_HOME: join(dirname(root), "config"),
    GIT_CONFIG_NOSYSTEM: "1",
  };
}

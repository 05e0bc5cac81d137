import { mkdir } from "node:fs/promises";
import type { BenchGit } from "./bench-git.ts";
import { putFiles } from "./put-files.ts";

/** A repository with one commit of these files on `main`, pushed to a bare remote where one is wanted. */
export async function makeRepository(params: {
  readonly clone: string;
  /** Where the remote is to be; null: none. */
  readonly remote: string | null;
  readonly git: BenchGit<"clone">;
  readonly files?: Readonly<Record<string, string>> | undefined;
}): Promise<void> {
  const { clone, remote, files = { "readme.md": "hello\n" } } = params;
  const git = (...args: readonly string[]): Promise<string> => params.git("clone", ...args);
  await mkdir(clone);
  await git("init", "-q", "-b", "main");
  await git("config", "user.name", "A");
  await git("config", "user.email", "a@example.org");
  await putFiles(clone, files);
  await git("add", "-A");
  await git("commit", "-qm", "first");
  if (remote === null) return;
  await git("init", "-q", "--bare", "-b", "main", remote);
  await git("remote", "add", "origin", remote);
  await git("push", "-q", "-u", "origin", "main");
  await git("remote", "set-head", "origin", "main");
}

/** Pushes empty commits with these subjects to the base branch. */
export async function commitToBase(git: BenchGit<"clone">, subjects: readonly string[]): Promise<void> {
  for (const subject of subjects) await git("clone", "commit", "-q", "--allow-empty", "-m", subject);
  await git("clone", "push", "-q", "origin", "main");
}

/** The history of a repository with conventional commits, and its template for pull requests. */
export const CONVENTIONAL = ["feat: a", "fix(core): b", "docs: c", "chore: d", "Revert 1", "Revert 2", "Revert 3"];
export const TEMPLATE =
  "<!-- Read me -->\n## Summary\nDescribe it.\n\n## Tests\n\n## Checklist\n- [ ] I agree, @everyone, closes #7\n";

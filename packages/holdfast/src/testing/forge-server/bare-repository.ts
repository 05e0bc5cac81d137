import { runProcess } from "../../system/subprocess.ts";

/** What a forge does with a bare repository of its own: it reads branches, merges in objects alone, and moves a branch by compare-and-set. */
export class BareRepository {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  async tip(branch: string): Promise<string | null> {
    const found = await this.#git(["rev-parse", "--verify", "--quiet", `refs/heads/${branch}^{commit}`]);
    return found.code === 0 ? found.text : null;
  }

  async head(): Promise<string> {
    return (await this.#git(["symbolic-ref", "--short", "HEAD"])).text;
  }

  async hasCommit(commit: string): Promise<boolean> {
    return /^[0-9a-f]{40}$/.test(commit) && (await this.#git(["cat-file", "-e", `${commit}^{commit}`])).code === 0;
  }

  async isAncestor(ancestor: string, of: string): Promise<boolean> {
    return (await this.#git(["merge-base", "--is-ancestor", ancestor, of])).code === 0;
  }

  /** The tree of both together; null: they conflict. */
  async mergedTree(base: string, head: string): Promise<string | null> {
    const merged = await this.#git(["merge-tree", "--write-tree", "--name-only", base, head]);
    return merged.code === 0 ? (merged.text.split("\n")[0] ?? null) : null;
  }

  async commitTree(tree: string, parents: readonly string[], message: string): Promise<string> {
    return (await this.#git(["commit-tree", tree, ...parents.flatMap((parent) => ["-p", parent]), "-m", message])).text;
  }

  /** False: the branch is not at `from` any more. */
  async move(branch: string, to: string, from: string): Promise<boolean> {
    return (await this.#git(["update-ref", `refs/heads/${branch}`, to, from])).code === 0;
  }

  /** Brings a branch of a fork in, as forges do for each pull request. */
  async fetchFrom(other: BareRepository, branch: string, ref: string): Promise<void> {
    await this.#git(["fetch", "-q", "--", other.path, `+refs/heads/${branch}:${ref}`]);
  }

  async #git(args: readonly string[]): Promise<{ readonly code: number | null; readonly text: string }> {
    const [name, mail] = ["Forge", "forge@example.invalid"];
    const env = {
      PATH: process.env["PATH"],
      GIT_CONFIG_NOSYSTEM: "1",
      GIT_CONFIG_GLOBAL: "/dev/null",
      GIT_AUTHOR_NAME: name,
      GIT_AUTHOR_EMAIL: mail,
      GIT_COMMITTER_NAME: name,
      GIT_COMMITTER_EMAIL: mail,
    };
    const result = await runProcess({ command: "git", args: ["--git-dir", this.path, ...args], env });
    return { code: result.code, text: result.stdout.toString("utf8").trim() };
  }
}

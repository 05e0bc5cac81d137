/** Small text files in a run's worktree that people and tools expect (`.tmp/…`). Never through a symlink out of it. */
export interface Outputs {
  /** null when it is not there, is no regular file, is over a megabyte, or is not UTF-8. */
  read(path: string): Promise<string | null>;
  /** Why `read` gives nothing although something is there; null: nothing is, or it can be read. */
  refusal(path: string): Promise<string | null>;
  /** Atomic and durable when it returns: the old text or the new one, never a part. */
  write(path: string, text: string): Promise<void>;
  remove(path: string): Promise<void>;
  /**
   * Git never offers this directory for a commit: it gets a .gitignore of its own. The user's ignore files stay as they are. A file or a link in
   * its place is removed; what a link leads to is not touched.
   */
  hide(directory: string): Promise<void>;
}

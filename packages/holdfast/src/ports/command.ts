/** Commands that a user named (a gate, CI) and processes that carry a run's mark. */
export interface Commands {
  /** Through the shell, in its own process group, with the mark in its environment. Never rejects for what the command did. */
  run(params: {
    readonly command: string;
    readonly cwd: string;
    readonly mark: string;
    readonly timeoutMs: number | null;
    readonly signal: AbortSignal;
    readonly env?: Readonly<Record<string, string>>;
  }): Promise<CommandResult>;
  /**
   * Ends every process on this host that carries the mark, or one that begins with it and a slash, and sees them gone: asks, waits a moment, forces.
   * Our own process and its ancestors are never touched. Where the system cannot tell (no /proc), `supported` is false.
   */
  endMarked(mark: string): Promise<{ readonly ended: number; readonly supported: boolean }>;
}

export interface CommandResult {
  readonly kind: "exited" | "timed_out" | "interrupted" | "not_started";
  readonly code: number | null;
  /** stdout and stderr in the order of arrival, the last part of it. */
  readonly output: string;
  readonly milliseconds: number;
}

/** Does every file parse? By file ending, with the tools at hand. */
export interface SyntaxGate {
  check(params: {
    readonly root: string;
    readonly paths: readonly string[];
    readonly signal: AbortSignal;
  }): Promise<readonly SyntaxVerdict[]>;
}

export type SyntaxVerdict =
  | { readonly kind: "parsed"; readonly path: string; readonly by: string }
  | {
      readonly kind: "failed";
      readonly path: string;
      readonly by: string;
      readonly line: number | null;
      readonly message: string;
    }
  /** No tool for this kind of file, or the file is gone. Said, never hidden. */
  | { readonly kind: "skipped"; readonly path: string; readonly why: string };

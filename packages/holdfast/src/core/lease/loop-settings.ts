/** Runs whose number at work at once is limited. */
export interface LoopSettings {
  /** null: no limit. */
  readonly max: number | null;
  /** Names of their workflows. */
  readonly workflows: readonly string[];
}

export const DEFAULT_LOOPS: LoopSettings = { max: 4, workflows: ["ralph"] };

import { truncate } from "./display-width.ts";
import { escapeText } from "./escape-text.ts";
import { controlSequence } from "./page.ts";

/** Long work says where it is: one redrawn line on a terminal, a plain line now and then elsewhere. */
export interface Progress {
  update(text: string): void;
  /** Takes the line away; what follows is the result. */
  done(): void;
}

export interface ProgressParams {
  readonly write: (text: string) => void;
  readonly terminal: boolean;
  readonly width: number;
  readonly seal?: string;
  readonly now: () => number;
}

export function createProgress(params: ProgressParams): Progress {
  const every = params.terminal ? REDRAW_MS : LINE_MS;
  let shownAt = params.terminal ? Number.NEGATIVE_INFINITY : params.now();
  const clear = controlSequence(params, "", "G") + controlSequence(params, "2", "K");
  let drawn = false;
  return {
    update(text) {
      const now = params.now();
      if (now - shownAt < every) return;
      shownAt = now;
      drawn = true;
      params.write(params.terminal ? clear + truncate(escapeText(text), params.width - 1) : `${text}\n`);
    },
    done() {
      if (drawn && params.terminal) params.write(clear);
      drawn = false;
    },
  };
}

export const NO_PROGRESS: Progress = { update() {}, done() {} };

const REDRAW_MS = 100;
const LINE_MS = 5000;

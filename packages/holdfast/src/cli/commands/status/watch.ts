import type { Holdfast, RunStatus } from "../../../app.ts";
import type { Exit } from "../../../core/exit.ts";
import type { Shell } from "../../command.ts";
import { canRedraw } from "../../live/can-redraw.ts";
import { createLiveRegion } from "../../live/live-region.ts";
import { compactStatusText, statusText, statusWord } from "./view.ts";
import { statusJson } from "./status-json.ts";
import { countsText } from "../../output/batch-lines.ts";
import { truncate } from "../../output/display-width.ts";
import { escapeText } from "../../output/escape-text.ts";

/** Until the run has ended. A journal that is silent may still belong to a process that died: the lease is asked too. */
export async function watchStatus(shell: Shell, holdfast: Holdfast, run: string): Promise<Exit> {
  const show = shell.json ? jsonLines(shell) : canRedraw(shell) ? region(shell) : plainLines(shell);
  const wake = new Wake();
  const watching = follow({ holdfast, run, shell, wake });
  try {
    for (;;) {
      const status = await holdfast.status(run);
      if (!show.status(status)) return "done";
      if (status.condition.kind === "done" || status.condition.kind === "fatal") return "done";
      await wake.next(LOOK_MS, shell.signal);
      shell.signal.throwIfAborted();
    }
  } finally {
    show.close();
    await watching.stop();
  }
}

interface Shower {
  /** false: nobody reads any more. */
  status(status: RunStatus): boolean;
  close(): void;
}

function jsonLines(shell: Shell): Shower {
  let before = "";
  return {
    status(status) {
      const document = statusJson(status);
      // Time goes on by itself: that is no change.
      const content = JSON.stringify(document, (key, value) => (CLOCKS.has(key) ? undefined : value));
      if (content === before) return true;
      before = content;
      return shell.write(`${JSON.stringify(document)}\n`);
    },
    close() {},
  };
}

const CLOCKS: ReadonlySet<string> = new Set(["elapsed", "criticalPath", "critical"]);

function plainLines(shell: Shell): Shower {
  let before = "";
  return {
    status(status) {
      const place = status.stage === null ? "" : `  ${status.stage} #${status.iteration}`;
      const counted = status.graph === null ? "" : `  ${countsText(status.graph.counts)}`;
      const line = `${escapeText(`${status.run.id}  ${statusWord(status).word}${place}${counted}  ${status.last?.text ?? ""}`)}\n`;
      if (line === before) return true;
      before = line;
      return shell.write(line);
    },
    close() {},
  };
}

function region(shell: Shell): Shower {
  const live = createLiveRegion({ write: (text) => void shell.write(text), columns: shell.columns, page: shell.page });
  let shown: RunStatus | undefined;
  const pageNow = () => ({ ...shell.page, now: Date.now(), width: shell.columns() - 1 });
  return {
    status(status) {
      shown = status;
      live.draw(
        compactStatusText(status, pageNow())
          .trimEnd()
          .split("\n")
          .map((line) => (shell.page.color ? line : truncate(line, shell.columns() - 1))),
      );
      return true;
    },
    /** What was shown last stays on the screen, and there is room for all of it now. */
    close() {
      live.close();
      if (shown !== undefined) shell.write(statusText(shown, pageNow()));
    },
  };
}

/** Sleeps until the time is up or something was written, whichever is first. */
class Wake {
  #called = false;
  #waiting: (() => void) | undefined;

  call(): void {
    this.#called = true;
    this.#waiting?.();
  }

  async next(milliseconds: number, signal: AbortSignal): Promise<void> {
    if (!this.#called && !signal.aborted) {
      await new Promise<void>((resolve) => {
        const end = (): void => {
          clearTimeout(timer);
          signal.removeEventListener("abort", end);
          resolve();
        };
        const timer = setTimeout(end, milliseconds);
        signal.addEventListener("abort", end);
        this.#waiting = end;
      });
    }
    this.#waiting = undefined;
    this.#called = false;
  }
}

function follow(params: {
  readonly holdfast: Holdfast;
  readonly run: string;
  readonly shell: Shell;
  readonly wake: Wake;
}): { stop(): Promise<void> } {
  const controller = new AbortController();
  const signal = AbortSignal.any([controller.signal, params.shell.signal]);
  const reading = (async () => {
    for await (const _entry of params.holdfast.store.watch({ run: params.run, signal })) params.wake.call();
  })().catch(() => undefined);
  return {
    async stop() {
      controller.abort();
      await reading;
    },
  };
}

const LOOK_MS = 1000;

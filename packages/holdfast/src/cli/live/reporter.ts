import type { LoopPicture, ProgressEvent } from "../../app.ts";
import type { GraphPicture } from "../../core/graph/graph-picture.ts";
import type { Amounts } from "../../core/position/position.ts";
import type { Shell } from "../command.ts";
import { wrapStyled } from "../output/wrap-styled.ts";
import { canRedraw } from "./can-redraw.ts";
import { eventLine } from "./event-line.ts";
import { createLiveRegion } from "./live-region.ts";
import { emptyPicture, foldEvent } from "./picture.ts";
import { pictureLines } from "./picture-lines.ts";

/** Shows a run as it goes: JSON lines for programs, a live view on a terminal, plain lines elsewhere. */
export interface Reporter {
  tell(event: ProgressEvent): void;
  spent(amounts: Amounts): void;
  /** The task graph as it stands now. */
  graph(graph: GraphPicture | null): void;
  /** How a loop goes, as its newest checkpoint has it. */
  loop(loop: LoopPicture | null): void;
  /** Takes the live view away; what follows is the outcome. */
  close(): void;
}

export function createReporter(shell: Shell): Reporter {
  if (shell.json) return { tell: (event) => void shell.write(`${JSON.stringify(event)}\n`), ...NO_VIEW };
  if (shell.quiet) return { tell() {}, ...NO_VIEW };
  return canRedraw(shell) ? liveReporter(shell) : plainReporter(shell);
}

function plainReporter(shell: Shell): Reporter {
  return {
    tell(event) {
      const line = eventLine(event, shell.page);
      if (line !== null) shell.write(line);
    },
    ...NO_VIEW,
  };
}

const NO_VIEW = { spent() {}, graph() {}, loop() {}, close() {} };

/** Redrawn on news, and now and then so that the clock goes on; never more often than an eye can follow. */
function liveReporter(shell: Shell): Reporter {
  const region = createLiveRegion({
    write: (text) => void shell.write(text),
    columns: shell.columns,
    page: shell.page,
  });
  let picture = emptyPicture("");
  let open = true;
  const draw = (): void => {
    if (!open) return;
    region.draw(pictureLines(picture, { ...shell.page, width: shell.columns(), now: Date.now() }));
  };
  const timer = setInterval(draw, REDRAW_MS);
  timer.unref();
  const close = (): void => {
    if (!open) return;
    open = false;
    clearInterval(timer);
    process.off("SIGWINCH", draw);
    process.off("exit", close);
    region.close();
  };
  process.on("SIGWINCH", draw);
  // A second Ctrl+C leaves from anywhere: the cursor must come back all the same.
  process.on("exit", close);
  return {
    tell(event) {
      picture = foldEvent(picture, event);
      const line = event.kind === "agent" ? null : eventLine(event, shell.page);
      if (line !== null && open)
        region.log(`${wrapStyled(line.trimEnd(), { width: shell.columns() - 1, indent: 12 })}\n`);
    },
    spent(amounts) {
      picture = { ...picture, spent: amounts };
    },
    graph(graph) {
      picture = { ...picture, graph };
    },
    loop(loop) {
      picture = { ...picture, loop };
    },
    close,
  };
}

const REDRAW_MS = 100;

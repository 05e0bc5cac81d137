import { LONGEST_TIMER_MS } from "../../core/longest-timer.ts";
import { Stopped } from "../halt.ts";
import type { RunSession } from "./run-session.ts";

/**
 * Stops work when this process has carried the run for so long. By a clock that nobody can set: a machine that slept has not worked. Nothing is taken
 * from the run's own budget, so the next session has its whole time.
 */
export function limitSession(writer: RunSession, milliseconds: number | undefined): { end(): void } {
  if (milliseconds === undefined) return { end: () => undefined };
  const until = performance.now() + milliseconds;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = (): void => {
    const left = until - performance.now();
    if (left > 0) {
      timer = setTimeout(look, Math.min(Math.ceil(left), LONGEST_TIMER_MS));
      return;
    }
    const reason = `The session's time is over: ${durationText(milliseconds)}`;
    writer.halt.stop(new Stopped({ kind: "parked", on: "session", reason, until: null }, { saved: false }));
  };
  look();
  return { end: () => clearTimeout(timer) };
}

function durationText(milliseconds: number): string {
  if (milliseconds < 1000) return `${milliseconds} ms`;
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 120) return `${seconds} s`;
  return `${Math.round(seconds / 60)} minutes`;
}

import type { RunStanding } from "../../app.ts";
import type { Style } from "./page.ts";

/** How a run stands, in a word or two. */
export function standingWord(standing: RunStanding): { readonly word: string; readonly style: Style } {
  switch (standing.kind) {
    case "running":
      return standing.ordered === null
        ? { word: "running", style: "cyan" }
        : { word: standing.ordered === "pause" ? "pausing" : "aborting", style: "yellow" };
    case "completing":
      return { word: "completing", style: "cyan" };
    case "queued":
      return { word: "queued", style: "yellow" };
    case "stale":
      return { word: standing.suspended ? "stale: stopped" : "stale", style: "red" };
    case "elsewhere":
      return { word: "held elsewhere", style: "yellow" };
    case "waiting":
      return { word: standing.due ? `due: ${standing.on}` : `waiting: ${standing.on}`, style: "yellow" };
    case "paused":
      return { word: "paused", style: "yellow" };
    case "budget_exhausted":
      return { word: "budget exhausted", style: "yellow" };
    case "limit_reached":
      return { word: "limit reached", style: "red" };
    case "completed":
      return { word: "completed", style: "green" };
    case "failed":
      return { word: "failed", style: "red" };
    case "aborted":
      return { word: "aborted", style: "red" };
    case "crashed":
      return { word: standing.known === "certain" ? "crashed" : "crashed?", style: "red" };
    case "stopped":
      return { word: "stopped", style: "yellow" };
    case "new":
      return { word: "not begun", style: "dim" };
    case "manual":
      return { word: "manual", style: "dim" };
  }
}

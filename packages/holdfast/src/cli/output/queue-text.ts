/** Formats what the queue has about a submitted run, for `queue` and `status`. */
import { priorityText } from "@holdfast/core/lease";
import type { QueueEntry } from "../../worker/read-queue.ts";
import { relativeTime } from "./quantities.ts";

/** "" if it is executed, or if only a signal continues it. */
export function dueText({ state, wakeAt }: Pick<QueueEntry, "state" | "wakeAt">, now: number): string {
  if (state === "active" || wakeAt === null) return "";
  if (wakeAt <= now) return "now";
  // The first repetition of a failed attempt is due after 30 seconds.
  return wakeAt - now < 60_000 ? "within a minute" : relativeTime(new Date(wakeAt).toISOString(), now);
}

/** For a cell: why it waits, or until when. */
export function waitText(entry: QueueEntry, now: number): string {
  if (entry.why !== null) return entry.why;
  const due = dueText(entry, now);
  return due === "" ? "" : `due ${due}`;
}

/** A sentence for `status`: "In queue claude, due now: no worker has joined." null: the status says as much. */
export function queueSentence(entry: QueueEntry, now: number): string | null {
  const { queue, priority, why } = entry;
  const due = dueText(entry, now);
  if (due === "" && (entry.failures ?? 0) === 0) return null;
  const parts = [`In queue ${queue}`, priority === 0 ? "" : `priority ${priorityText(priority)}`, due && `due ${due}`];
  return `${parts.filter((part) => part !== "").join(", ")}${why === null ? "" : `: ${why}`}.`;
}

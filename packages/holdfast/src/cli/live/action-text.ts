import type { AgentEvent } from "../../ports/agent.ts";

/** What an agent does right now, in one line; null for what nobody watches (raw lines, counts). */
export function actionText(event: AgentEvent): string | null {
  switch (event.kind) {
    case "tool":
      return event.detail === "" ? event.name : `${event.name}: ${firstLine(event.detail)}`;
    case "text": {
      const line = firstLine(event.text);
      return line === "" ? null : line;
    }
    case "session":
    case "message":
    case "usage":
    case "raw":
    case "masked":
    case "process":
      return null;
  }
}

function firstLine(text: string): string {
  return (
    text
      .split("\n")
      .find((line) => line.trim() !== "")
      ?.trim() ?? ""
  );
}

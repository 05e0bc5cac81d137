/** Our stage for a word of the format. `event` tells apart what the format puts into one stage. */
export function ownStage(stage: string, event = ""): string {
  switch (stage) {
    case "simp":
      return "simplify";
    case "finish":
      return "done";
    case "parse":
      return "impl";
    case "pr":
      return event.startsWith("ci_") ? "ci" : "pr";
    default:
      return stage;
  }
}

/** Before the work is at its beginning, and watching CI is part of the pull request. */
export function foreignStage(stage: string): string {
  switch (stage) {
    case "setup":
      return "impl";
    case "simplify":
      return "simp";
    case "ci":
      return "pr";
    default:
      return stage;
  }
}

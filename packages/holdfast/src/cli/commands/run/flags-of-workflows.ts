import { HoldfastError } from "../../../core/error.ts";
import type { runSpec } from "./spec.ts";

type RunFlags = (typeof runSpec)["flags"];

/** Flags that only some workflows have. Nobody shall believe that another one heeds them. */
const ONLY: Partial<Readonly<Record<keyof RunFlags, readonly string[]>>> = {
  target: ["crunch"],
  type: ["crunch", "ralph"],
  "max-parallel": ["crunch"],
  model: ["crunch"],
  until: ["ralph"],
  "until-timeout": ["ralph"],
  "no-first-check": ["ralph"],
  max: ["ralph"],
  attempts: ["ralph"],
  memory: ["ralph"],
  "memory-policy": ["ralph"],
  "on-stuck": ["ralph"],
  skill: ["ralph"],
  flow: ["ralph"],
  pr: ["ralph"],
};

/** What impl has and a loop has not, and what to say instead. */
const NOT_OF_RALPH: Partial<Readonly<Record<keyof RunFlags, string>>> = {
  gate: "The command that says when it is done is --until.",
  "impl-model": "Its agent is --agent.",
  "review-model": "It has no reviews: its criterion is --until.",
  "max-reviews": "It has no reviews: its limit is --max.",
  review: "It has no reviews: its criterion is --until.",
  "no-review": "It has no reviews: its criterion is --until.",
  simplify: "Say it in the task.",
  "wait-for-ci": "It ends with the pull request.",
  "ignore-reviews": "It ends with the pull request.",
};

/** Was it typed, whatever its value? */
interface Typed {
  on(flag: string): boolean;
}

export function refuseOtherFlags(input: Typed, workflow: string): void {
  for (const [flag, owners] of Object.entries(ONLY)) {
    if (owners.includes(workflow) || !input.on(flag)) continue;
    throw new HoldfastError({
      code: "USAGE",
      message: `--${flag} means something to the ${owners.join(" and ")} workflow only, and this is ${workflow}`,
      hint: `Leave it out, or say ${owners.map((owner) => `\`--workflow ${owner}\``).join(" or ")}.`,
    });
  }
  if (workflow !== "ralph") return;
  for (const [flag, instead] of Object.entries(NOT_OF_RALPH)) {
    if (!input.on(flag)) continue;
    throw new HoldfastError({
      code: "USAGE",
      message: `--${flag} means nothing to the ralph workflow`,
      hint: `${instead} Leave --${flag} out.`,
    });
  }
}

/** A flag beats the file in both directions. */
export function readYolo(input: Typed, fallback: boolean): boolean {
  const [yes, no] = [input.on("yolo"), input.on("no-yolo")];
  if (yes && no)
    throw new HoldfastError({
      code: "USAGE",
      message: "Both --yolo and --no-yolo were given",
      hint: "Leave one of them out.",
    });
  return yes || (!no && fallback);
}

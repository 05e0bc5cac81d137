import { parsePhase } from "../../../core/crunch/phase.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { JsonObject } from "../../../core/json.ts";
import type { WorkSettings } from "../../../config/work-settings.ts";
import type { Input } from "../../command.ts";
import { parseCount } from "../../parse-count.ts";
import { readYolo } from "./flags-of-workflows.ts";
import type { runSpec } from "./spec.ts";

type RunInput = Input<(typeof runSpec)["flags"]>;

/** Of the crunch workflow, without the files of the repository. What impl and crunch both have is configured once. */
export function readCrunchOptions(input: RunInput, { impl }: WorkSettings): JsonObject {
  const parallel = input.text("max-parallel");
  return {
    ...given("target", input.text("target") ?? shortTarget(input)),
    ...given("type", input.text("type")),
    ...(parallel === undefined ? {} : { maxParallel: parseCount("max-parallel", parallel) }),
    models: readModels(input.texts("model")),
    yolo: readYolo(input, impl.yolo),
    draft: input.on("draft") || impl.draft,
    gate: input.text("gate") ?? impl.gate,
    baseBranch: input.text("base") ?? impl.base,
  };
}

/** `-t ready` beside an issue is how crunch's own users say where to stop; a text that is no phase is a task, and one too many. */
export function shortTarget(input: Pick<RunInput, "text" | "operand">): string | undefined {
  const task = input.text("task");
  const issue = input.operand(0) ?? input.text("issue");
  return task !== undefined && issue !== undefined && parsePhase(task) !== null ? task : undefined;
}

function readModels(texts: readonly string[]): JsonObject {
  return Object.fromEntries(
    texts.map((text) => {
      const [, who, model] = /^([a-z0-9-]+)=(.+)$/.exec(text) ?? [];
      if (who !== undefined && model !== undefined) return [who, model];
      throw new HoldfastError({
        code: "USAGE",
        message: `--model cannot be "${text}"`,
        hint: "Give a role or an agent and a model, such as quality=claude:haiku or dev-go=codex:gpt-5.",
      });
    }),
  );
}

function given(name: string, value: string | undefined): JsonObject {
  return value === undefined ? {} : { [name]: value };
}

import { basename, dirname } from "node:path";
import { milliseconds } from "../../../config/amount.ts";
import type { WorkSettings } from "../../../config/work-settings.ts";
import { HoldfastError } from "../../../core/error.ts";
import { isJsonObject } from "../../../core/json.ts";
import type { Json, JsonObject } from "../../../core/json.ts";
import type { Work } from "../../../core/run/run.ts";
import type { Input } from "../../command.ts";
import { parseCount } from "../../parse-count.ts";
import { readYolo } from "./flags-of-workflows.ts";
import type { runSpec } from "./spec.ts";

type RunInput = Input<(typeof runSpec)["flags"]>;

/** Of the ralph workflow, without the texts of files. An issue ends in a pull request, a task in words where that is asked for. */
export function readRalphOptions(input: RunInput, { impl, ralph }: WorkSettings, work: Work): JsonObject {
  const max = input.text("max") ?? input.text("max-iterations");
  if (input.text("max") !== undefined && input.text("max-iterations") !== undefined)
    throw usage("Both --max and --max-iterations were given", "They mean the same: leave one of them out.");
  const memory = input.text("memory");
  const attempts = input.text("attempts");
  return {
    workflowType: typeOf(input),
    until: readChecks(input, ralph),
    maxIterations: max === undefined ? ralph.maxIterations : atLeastOne("max", max),
    ...(attempts === undefined ? {} : { attempts: atLeastOne("attempts", attempts) }),
    memory: {
      capacity: memory === undefined ? ralph.memory : atLeastOne("memory", memory),
      policy: input.text("memory-policy") ?? ralph.memoryPolicy,
    },
    onStuck: input.text("on-stuck") ?? ralph.onStuck,
    detection: { ...ralph.detection },
    qualityWeights: { ...ralph.quality },
    tokensPerIteration: ralph.tokensPerIteration,
    firstCheck: !input.on("no-first-check") && ralph.firstCheck,
    pullRequest: work.kind === "issue" || input.on("pr"),
    draft: input.on("draft") || impl.draft,
    baseBranch: input.text("base") ?? impl.base,
    yolo: readYolo(input, impl.yolo),
  };
}

/** What is worked on where only a file says it: a skill or a flow by its name. */
export function namedByFile(input: Pick<RunInput, "text">): Work | null {
  const skill = input.text("skill");
  if (skill !== undefined) return { kind: "task", text: `Carry out the skill ${nameOf(skill)}` };
  const flow = input.text("flow");
  return flow === undefined ? null : { kind: "task", text: `Carry out the flow ${nameOf(flow)}` };
}

/** Read once, when the run begins: it goes on with the same text whatever happens to the file. */
export async function readRalphFiles(
  input: Pick<RunInput, "text">,
  read: (path: string) => Promise<string>,
): Promise<JsonObject> {
  const [skill, flow] = [input.text("skill"), input.text("flow")];
  const given = input.text("task") ?? "";
  if (skill !== undefined) return { skill: { name: nameOf(skill), text: await read(skill), arguments: given } };
  if (flow === undefined) return {};
  const text = await read(flow);
  if (!/\.(?:ya?ml|json)$/i.test(flow))
    return { steps: [{ name: nameOf(flow), prompt: text.replaceAll("$ARGUMENTS", given) }] };
  const { readYaml } = await import("../../../system/yaml-text.ts");
  const parsed = readYaml(text);
  const [fault] = parsed.ok ? [] : parsed.faults;
  if (!parsed.ok) throw usage(`${flow} cannot be read: ${fault?.message ?? "it is no YAML"}`, STEPS);
  // What YAML.parse gives is JSON but for what the options' own parser refuses by name.
  const value = parsed.value as Json;
  const steps = isJsonObject(value) ? value["steps"] : value;
  if (steps === undefined) throw usage(`${flow} has no steps`, STEPS);
  return { steps };
}

const STEPS = "Give a list `steps:`, each with name, prompt and, where it has one, until; docs/ralph.md shows one.";

/** `--skill` and `--flow` say the type by themselves. */
function typeOf(input: RunInput): string {
  const [skill, flow] = [input.text("skill"), input.text("flow")];
  if (skill !== undefined && flow !== undefined)
    throw usage("Both --skill and --flow were given", "A run carries out one of them: leave the other out.");
  const told = skill !== undefined ? "skill_execution" : flow !== undefined ? "flow_command" : undefined;
  const type = input.text("type") ?? told ?? "ralph_loop";
  if (!TYPES.includes(type))
    throw usage(`--type cannot be "${type}" with the ralph workflow`, `Give one of ${TYPES.join(", ")}.`);
  if (told !== undefined && type !== told)
    throw usage(`--type ${type} does not go with --${told === "flow_command" ? "flow" : "skill"}`, "Leave --type out.");
  if (type === "skill_execution" && skill === undefined)
    throw usage("--type skill_execution needs a skill", "Name its file: --skill .claude/skills/NAME/SKILL.md.");
  if (type === "flow_command" && flow === undefined)
    throw usage(
      "--type flow_command needs a flow",
      "Name its file: --flow steps.yaml, or a command such as --flow .claude/commands/NAME.md.",
    );
  return type;
}

const TYPES: readonly string[] = ["ralph_loop", "flow_command", "skill_execution", "agent_task"];

function readChecks(input: RunInput, ralph: WorkSettings["ralph"]): readonly JsonObject[] {
  const typed = input.texts("until");
  const time = input.text("until-timeout");
  const timeoutMs = time === undefined ? ralph.untilTimeoutMs : milliseconds(time);
  if (timeoutMs === undefined) throw usage(`--until-timeout cannot be "${time}"`, "Give a duration such as 10m.");
  const commands = typed.length > 0 ? typed : ralph.until;
  if (commands.some((command) => command.trim() === ""))
    throw usage("--until is empty", 'Give the command that says when it is done, such as --until "npm test".');
  if (commands.length === 0 && typeOf(input) === "ralph_loop")
    throw usage(
      "When is it done?",
      'Name a command that succeeds then: --until "npm test". Something that is done once: --type agent_task.',
    );
  return commands.map((command) => ({ command, timeoutMs }));
}

/** `.claude/skills/review/SKILL.md` is "review", `release.yaml` is "release". */
function nameOf(path: string): string {
  const name = basename(path).replace(/\.[a-z]+$/i, "");
  return name === "SKILL" ? basename(dirname(path)) : name;
}

function atLeastOne(flag: string, text: string): number {
  const count = parseCount(flag, text);
  if (count > 0) return count;
  throw usage(`--${flag} 0 would do nothing`, "Give a number from 1 on.");
}

function usage(message: string, hint: string): HoldfastError {
  return new HoldfastError({ code: "USAGE", message, hint });
}

import type { Input, Shell } from "../../command.ts";
import type { Exit } from "../../../core/exit.ts";
import { planCompletion } from "./plan-completion.ts";
import type { completeSpec } from "./spec.ts";

/** Called at every Tab: it must never print an error into the line that somebody is typing. */
export async function run(shell: Shell, input: Input<(typeof completeSpec)["flags"]>): Promise<Exit> {
  const candidates = await complete(shell, input.paths).catch(() => []);
  shell.print({ json: () => ({ candidates }), text: () => candidates.map((candidate) => `${candidate}\n`).join("") });
  return "done";
}

async function complete(shell: Shell, words: readonly string[]): Promise<readonly string[]> {
  const typed = words.at(-1) ?? "";
  const plan = planCompletion({ specs: shell.commands.map(({ spec }) => spec), words });
  switch (plan.kind) {
    case "words":
      return plan.words.filter((word) => word.startsWith(typed));
    case "directories":
      return [":directories"];
    case "files":
      return [":files"];
    case "runs":
      return (await runIds(shell)).filter((id) => id.startsWith(typed));
    case "addresses":
      return (await addresses(shell, typed)).filter((address) => address.startsWith(typed));
  }
}

async function runIds(shell: Shell): Promise<readonly string[]> {
  const holdfast = await shell.open({ create: false });
  return (await holdfast.listRuns({ limit: 100 })).map(({ id }) => id);
}

/** First the run, then what is in it: a hundred runs times a hundred checkpoints help nobody. */
async function addresses(shell: Shell, typed: string): Promise<readonly string[]> {
  const [run = ""] = typed.split("@");
  if (!typed.includes("@")) return (await runIds(shell)).map((id) => `${id}@`);
  const holdfast = await shell.open({ create: false });
  const id = run === "" ? (await holdfast.resolveRun()).id : run;
  const checkpoints = await (await holdfast.run(id)).list({ limit: 50 });
  const tags = checkpoints.flatMap((checkpoint) => checkpoint.tags);
  return ["latest", ...tags, ...checkpoints.map(({ sequence }) => String(sequence))].map((name) => `${run}@${name}`);
}

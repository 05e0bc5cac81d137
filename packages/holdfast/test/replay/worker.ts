import { openHoldfast } from "../../src/open.ts";
import { loopWorkflow } from "./recorded-loop.ts";

/** One life of a recorded loop: starts or resumes it, and prints each checkpoint. The test kills it. */
const [repository = "", agent = "", iterations = ""] = process.argv.slice(2);
const workflow = loopWorkflow(Number(iterations));
await using holdfast = await openHoldfast({ cwd: repository, forge: { kind: "none", path: null, host: null } });
const listen = ({ kind }: { readonly kind: string }): void => {
  if (kind === "checkpoint" || kind === "step_started") process.stdout.write(`${kind}\n`);
};
const begun = (await holdfast.store.getRun("loop")) !== undefined;
if (begun) await holdfast.resume({ run: "loop", workflow, listen });
else
  await holdfast.start({
    workflow,
    work: { kind: "task", text: "count" },
    agent,
    id: "loop",
    mode: "logged",
    listen,
  });

// The impl workflow as a plug-in: created from options, and continued from an imported checkpoint.

import { IMPL_EXTENSION } from "@holdfast/formats/impl-json";
import { fetchImportedIssue } from "../forge.ts";
import { type WorkflowPlugin, importWithoutAgent, importedIssueNumber, namedRoles } from "../plugin.ts";
import { planInput } from "./plan.ts";
import { implLimits, withLimits } from "./limits.ts";
import { implOptionsJson, parseImplOptions } from "./options.ts";
import { IMPL_PROMPTS } from "./prompts.ts";
import { adoptImplState } from "./setup.ts";
import { implWorkflow } from "./workflow.ts";

export const implPlugin: WorkflowPlugin = {
  name: "impl",
  prompts: IMPL_PROMPTS,
  create(given, adapters) {
    const { options } = parseImplOptions(given);
    return { workflow: implWorkflow(options, adapters), options: implOptionsJson(options) };
  },
  roles({ implModel, review, reviewModel, simplify }, own) {
    const impl = implModel ?? own;
    return namedRoles({
      impl,
      review: review === false ? null : (reviewModel ?? impl),
      simplify: simplify === true ? impl : null,
    });
  },
  withAgent: (options) => ({ ...options, implModel: null, reviewModel: null }),
  limits: implLimits,
  adopt({ adapters, run, checkpoint, agent, options: given, limits }) {
    const issue = importedIssueNumber(run, "impl", "issue_no");
    const { position, context } = checkpoint.planes;
    // The stage that the run is in cannot be switched off.
    const { options } = parseImplOptions({
      ...withLimits(given, limits),
      ...(position.stage === "review" ? { review: true } : {}),
      ...(position.stage === "simplify" ? { simplify: true } : {}),
      ...(position.stage === "ci" ? { waitForCi: true } : {}),
    });
    if (agent === null && options.implModel === null) throw importWithoutAgent(run);
    return {
      workflow: implWorkflow(options, adapters),
      options: implOptionsJson(options),
      agent,
      base: options.baseBranch,
      async check() {
        await fetchImportedIssue(adapters, issue);
      },
      async prepare(root) {
        const extension = checkpoint.planes.extensions[IMPL_EXTENSION];
        const state = await adoptImplState({ adapters, options, values: context.values, issue, extension, root });
        const { plan } = planInput(options.plan ?? state.plan ?? null);
        return { values: state, inputs: { issue: state.issue, base: state.base?.commit ?? null, plan } };
      },
    };
  },
};

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Workflow, defineWorkflow } from "@holdfast/core/workflow";
import type { JsonObject } from "@holdfast/core/json";
import type { Adapters } from "@holdfast/core/adapters";
import type { Branch } from "@holdfast/core/branch";

/** A custom workflow with the external effects that `impl` leaves to users: it comments, labels and merges. */
export function effectsWorkflow(adapters: Adapters): Workflow<JsonObject> {
  const { forge } = adapters;
  if (forge === null) throw new TypeError("there is no forge");
  const branchOf = async (root: string | undefined): Promise<Branch> => {
    if (root === undefined) throw new TypeError("there is no worktree");
    return await adapters.branches.of(root);
  };
  return defineWorkflow<JsonObject>({
    name: "effects",
    initial: "write",
    stages: {
      async write({ step, workspace, now }) {
        const at = await step("at", () => new Date(now()).toISOString());
        const branch = await branchOf(workspace?.root);
        const write = async (): Promise<string> => {
          await writeFile(join(branch.root, "effect.txt"), "done\n");
          const made = await branch.commit({ message: "An effect\n", at, exclude: [".tmp"] });
          return made?.commit ?? (await branch.head());
        };
        const head = await step("write", write, { changesFiles: true });
        return { event: "written", reason: "the file is there", state: { head } };
      },
      async publish({ effect, workspace, state }) {
        const branch = await branchOf(workspace?.root);
        const head = String(state["head"]);
        await effect({
          purpose: "push",
          kind: "push",
          target: branch.name,
          payload: { head },
          lookUp: async () => {
            const found = await branch.lookUpRemote(branch.name);
            if (found.kind === "unknown") return found;
            return found.commit === head ? { kind: "present", receipt: head } : { kind: "absent" };
          },
          act: async () => {
            const pushed = await branch.push({ expected: null });
            return pushed.kind === "refused"
              ? { kind: "failed", reason: pushed.refusal.message, detail: null }
              : { kind: "done", receipt: pushed.commit };
          },
        });
        await effect({
          purpose: "pull-request",
          kind: "pull_request",
          target: branch.name,
          payload: { head: branch.name },
          lookUp: async () => {
            const found = await forge.findPullRequest(branch.name);
            return found === null ? { kind: "absent" } : { kind: "present", receipt: found.number };
          },
          act: async (key) => {
            const request = { title: "An effect", body: "Why.", head: branch.name, base: "main", draft: false, key };
            return { kind: "done", receipt: (await forge.createPullRequest(request)).number };
          },
        });
        await effect({
          purpose: "comment",
          kind: "comment",
          target: "issue 1",
          payload: { body: "On its way." },
          lookUp: async () => {
            const found = await forge.findComment(1, "effects/comment");
            return found === null ? { kind: "absent" } : { kind: "present", receipt: found.url };
          },
          act: async () => ({
            kind: "done",
            receipt: (await forge.comment(1, { body: "On its way.", key: "effects/comment" })).url,
          }),
        });
        await effect({
          purpose: "merge",
          kind: "merge",
          target: "pull request",
          payload: { head },
          lookUp: async () => {
            const found = await forge.findPullRequest(branch.name);
            return found?.state === "merged" ? { kind: "present", receipt: found.number } : { kind: "absent" };
          },
          act: async () => {
            const found = await forge.findPullRequest(branch.name);
            return { kind: "done", receipt: (await forge.mergePullRequest(found?.number ?? 0, { head })).number };
          },
        });
        return { event: "published", reason: "it is merged" };
      },
    },
    transitions: { write: { written: "publish" }, publish: { published: "done" } },
    ends: { done: "done", fatal: "failed" },
    initialState: () => ({}),
  });
}

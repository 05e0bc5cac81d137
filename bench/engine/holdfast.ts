import { randomUUID } from "node:crypto";
import { beginRun } from "@holdfast/core/control-run";
import { executeRun } from "@holdfast/core/execute";
import { defineWorkflow } from "@holdfast/core/workflow";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import { openSqliteStore } from "../../packages/holdfast/src/stores/sqlite/open.ts";
import { systemClock } from "@holdfast/platform/clock";
import { benchParts } from "./bench-parts.ts";
import { createMarks } from "./marks.ts";

/** Holdfast's engine on its embedded store: journal, hash chain, lease check, all on. No repository: steps only. */
export async function open(directory: string) {
  const marks = createMarks();
  const store = await openSqliteStore({ directory, create: true, clock: systemClock });
  const parts = benchParts(store);
  const { inputs, config } = emptyPlanes();
  const workflow = (index: number, steps: number) =>
    defineWorkflow({
      name: "steps",
      initial: "work",
      stages: {
        work: async (context) => {
          for (let at = 0; at < steps; at += 1) {
            await context.step(`step-${at}`, () => {
              marks.hit(index);
              return at;
            });
          }
          return { event: "worked", reason: "all steps are done" };
        },
      },
      transitions: { work: { worked: "done" } },
      ends: { done: "done" },
      initialState: () => ({}),
    });
  return {
    durability: "SQLite WAL, synchronous=FULL, one commit a step, shared by steps that end together",
    async run({ workflows, steps }: { workflows: number; steps: number }) {
      marks.reset(workflows);
      const runs = Array.from({ length: workflows }, (_, index) => ({
        id: `b-${randomUUID().slice(0, 13)}`,
        workflow: workflow(index, steps),
      }));
      await Promise.all(
        runs.map((run) => beginRun({ parts, ...run, work: { kind: "none" }, inputs, config, workspace: undefined })),
      );
      const { signal } = new AbortController();
      await Promise.all(runs.map(({ id, ...run }) => executeRun({ parts, run: id, ...run, signal })));
      return marks.all();
    },
    close: () => store.close(),
  };
}

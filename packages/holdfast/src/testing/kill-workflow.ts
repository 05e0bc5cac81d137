import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Workflow } from "../engine/definition.ts";
import { define } from "./toy-run.ts";
import type { State } from "./toy-run.ts";

/** The world outside as a file of lines: what was done stays done, whoever dies. */
export interface Outside {
  tell(line: string): void;
  lines(): readonly string[];
}

export function createOutside(path: string): Outside {
  return {
    tell: (line) => appendFileSync(path, `${line}\n`),
    lines: () => (existsSync(path) ? readFileSync(path, "utf8").split("\n").slice(0, -1) : []),
  };
}

/** One of everything: plain steps, steps at once, a step that changes files, an agent, an effect. */
export function killWorkflow(outside: Outside): Workflow<State> {
  return define({
    work: async ({ step, agent, effect, position, workspace, state }) => {
      const visit = position.visit.number;
      const once = (name: string) =>
        step(name, () => {
          outside.tell(`step ${visit} ${name}`);
          return name;
        });
      const seen = [await once("a"), ...(await Promise.all([once("b"), once("c")]))];
      await step(
        "write",
        () => {
          outside.tell(`step ${visit} write`);
          appendFileSync(join(workspace?.root ?? "", "written.txt"), `visit ${visit}\n`);
          return null;
        },
        { changesFiles: true },
      );
      await agent({ name: "edit", role: "impl", prompt: "p", model: null, yolo: true });
      const key = `effect ${visit}`;
      await effect({
        purpose: "tell",
        kind: "toy.tell",
        target: "outside",
        payload: { visit },
        lookUp: async () => (outside.lines().includes(key) ? { kind: "present", receipt: key } : { kind: "absent" }),
        act: async () => {
          outside.tell(key);
          return { kind: "done", receipt: key };
        },
      });
      return { event: "worked", reason: "did it", state: { seen: [...state.seen, ...seen] } };
    },
  });
}

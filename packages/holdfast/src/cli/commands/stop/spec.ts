import type { CommandSpec } from "../../command.ts";

export const stopSpec = {
  name: "stop",
  summary: "stop a running run; everything is saved",
  details: [
    "Does what Ctrl+C does in the terminal of the run: the agent and everything it started is ended, files and state are saved, the run can be resumed. Waits until that is done. A run of another host must be stopped there. A run that is still being prepared ends before anything is begun.",
  ],
  operands: [
    {
      name: "RUN",
      about: "a run id, or an issue number; default the one that runs",
      required: false,
      completes: "run",
    },
  ],
  consent: "store",
  paths: false,
  flags: {},
  examples: [
    { line: "holdfast stop", about: "the one that runs" },
    {
      line: "holdfast stop issue-42 && holdfast resume issue-42",
      about: "start it anew, for instance after changing the config",
    },
  ],
  json: '{"run": "id", "stopped": true | false when it was not running, "condition": {...} or null when it had not begun}.',
} as const satisfies CommandSpec;

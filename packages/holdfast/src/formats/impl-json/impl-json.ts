import { isJsonObject } from "../../core/json.ts";
import type { Format } from "../format.ts";
import { nameLosses } from "../name-losses.ts";
import type { Reasons } from "../name-losses.ts";
import { peekJson, readJson } from "../read-json.ts";
import { writeJson } from "../write-json.ts";
import { fitImplDocument } from "./document.ts";
import { remarksOn, toCheckpoint } from "./to-checkpoint.ts";
import { toDocument } from "./to-document.ts";

const PATH = ".tmp/impl-checkpoint.json";

/** `.tmp/impl-checkpoint.json` of tools that carry an issue to a pull request: one file, overwritten as the run goes on. */
export const implJson: Format = {
  name: "impl-json",
  title: "Checkpoint of an issue-to-pull-request run (impl-checkpoint.json)",
  capabilities: { many: false, directory: false, resumable: true },

  detect(file) {
    const document = peekJson(file);
    const state = document?.["state"];
    if (isJsonObject(state) && (Object.hasOwn(state, "issue_no") || Object.hasOwn(state, "current_stage")))
      return { match: "yes", why: "Its state has an issue_no or a current_stage" };
    if (/(?:^|[/\\])impl-checkpoint\.json$/.test(file.path))
      return { match: "maybe", why: "It has the name of such a file, but not the content" };
    return { match: "no", why: "It has no state with an issue_no or a current_stage" };
  },

  decode(file) {
    const { document, remarks } = readJson(file, "impl-json");
    const fitting = fitImplDocument(document, { format: "impl-json", file: file.path });
    return { checkpoints: [toCheckpoint(fitting)], remarks: [...remarks, ...remarksOn(fitting)] };
  },

  encode(checkpoint) {
    const source = { format: "impl-json", file: PATH } as const;
    const { original } = checkpoint;
    const before = original?.format === "impl-json" ? fitImplDocument(original.document, source) : null;
    const document = toDocument(checkpoint, before);
    const back = toCheckpoint(fitImplDocument(document, source));
    return { bytes: writeJson(document), path: PATH, losses: nameLosses(checkpoint, back, REASONS) };
  },
};

const REASONS: Reasons = {
  id: "The file has no id: there is one for each worktree",
  createdAt: "A document without a time stays without one, and one that has a time keeps it",
  trigger: "The format does not say why a checkpoint was taken",
  workflow: "The format knows one workflow only",
  work: "The format knows issues only, by number",
  "position.workflow": "The format knows one workflow only",
  "position.stage": "The format has no such stage; the nearest earlier one that it has was written",
  "position.iteration": "Iterations are counted from 1",
  "position.attempts": "The format keeps no counters beyond what its history implies",
  "position.streaks": "The format keeps no counters beyond what its history implies",
  "position.score": "A score is a whole number from 1 to 100; 0 stands for none",
  "position.feedback": "An empty text stands for none",
  "position.reason": "Only what the next prompt is told is kept",
  "context.values.history": "Entries of setup, and such as are no entries, have no place in the history",
  "context.values.pullRequest": "A pull request is a number from 1 and an address",
  "context.values": "Of the values of a run only its history and its pull request are carried",
  "context.tokens": "The format does not count tokens",
  files: "Of the files only the path of the worktree is carried",
  "inputs.issue": "The format has the number of the issue and not its text",
  "inputs.plan": "Of the plan only its path is carried",
  "extensions.impl-json": "The worktree, plan file or version that it names is not the one that was written",
};

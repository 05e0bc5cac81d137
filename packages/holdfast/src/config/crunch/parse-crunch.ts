import type { GraphPhase, GraphTemplate } from "../../core/crunch/graph-template.ts";
import { defaultCrunchSettings } from "../../core/crunch/default-settings.ts";
import type { CrunchSettings } from "../../core/crunch/settings.ts";
import { readYaml } from "../../system/yaml-text.ts";
import { explainIssue, nodeAt, problemAt } from "../config-problem.ts";
import type { ConfigProblem, ConfigSource, SchemaIssue } from "../config-problem.ts";
import { checkAgents, checkGraphFile, checkNames } from "./check-crunch.ts";
import type { Misplaced } from "./check-crunch.ts";
import { CRUNCH_FILES } from "./crunch-files.ts";
import type { CrunchFileKind } from "./crunch-files.ts";
import { agentsSchema, graphSchema, teamSchema, vetoSchema, weightsSchema } from "./crunch-schema.ts";
import { mergeAgents, mergeTeam, mergeVeto, mergeWeights, templateOf } from "./merge-crunch.ts";

export interface CrunchFile {
  /** Below `.holdfast/crunch`, such as `graphs/docs.yaml`. */
  readonly path: string;
  readonly text: string;
}

export interface CrunchProblem extends ConfigProblem {
  readonly path: string;
}

export type ParsedCrunch =
  | { readonly ok: true; readonly settings: CrunchSettings }
  | { readonly ok: false; readonly problems: readonly CrunchProblem[] };

/** Pure: the texts of the files that are there in; the settings, or all that is wrong with any of them, out. */
export function parseCrunch(files: readonly CrunchFile[]): ParsedCrunch {
  const reading = new Reading();
  // Agents first: the other files name them.
  for (const file of files.toSorted((a, b) => rank(a) - rank(b))) reading.read(file);
  return reading.problems.length === 0
    ? { ok: true, settings: reading.settings }
    : { ok: false, problems: reading.problems };
}

function rank(file: CrunchFile): number {
  return [...CRUNCH_FILES.keys()].indexOf(file.path);
}

class Reading {
  settings: CrunchSettings = defaultCrunchSettings;
  readonly problems: CrunchProblem[] = [];
  readonly #phases = new Map<GraphPhase, string>();

  read(file: CrunchFile): void {
    const kind = CRUNCH_FILES.get(file.path);
    const read = readYaml(file.text);
    const source: ConfigSource = { text: file.text, document: read.document, lines: read.lines };
    const tell = (found: readonly ConfigProblem[]): void => {
      const placed = found.map((problem) => ({ ...problem, path: file.path }));
      this.problems.push(...placed.toSorted((a, b) => a.line - b.line || a.column - b.column));
    };
    if (kind === undefined) {
      const known = [...CRUNCH_FILES.keys()].join(", ");
      tell([problemAt({ source, range: undefined, message: "nothing reads this file", hint: `Known: ${known}.` })]);
    } else if (!read.ok) tell(read.faults.map((fault) => problemAt({ source, ...fault })));
    else this.#take(kind, { source, value: read.value ?? {}, path: file.path, tell });
  }

  /** Who may be named: also those whom a file has taken out. What names them counts for nobody then, and is no mistake. */
  get #known(): CrunchSettings["agents"] {
    return { ...defaultCrunchSettings.agents, ...this.settings.agents };
  }

  #take(kind: CrunchFileKind, given: Given): void {
    const { settings } = this;
    switch (kind.kind) {
      case "agents": {
        const file = check(agentsSchema, given);
        if (file === null || misplaced(checkAgents(file, settings.agents), given)) return;
        this.settings = { ...settings, agents: mergeAgents(file, settings.agents) };
        return;
      }
      case "team": {
        const file = check(teamSchema, given);
        if (file === null) return;
        const named =
          file.fallbackImplementer === undefined ? [] : [[file.fallbackImplementer, ["fallbackImplementer"]] as const];
        if (misplaced(checkNames(named, this.#known), given)) return;
        this.settings = { ...settings, team: mergeTeam(file, settings.team) };
        return;
      }
      case "weights": {
        const file = check(weightsSchema, given);
        if (file === null) return;
        const exact = Object.keys(file.agents ?? {}).filter((name) => !name.endsWith("*"));
        if (
          misplaced(
            checkNames(
              exact.map((name) => [name, ["agents", name]] as const),
              this.#known,
            ),
            given,
          )
        )
          return;
        this.settings = { ...settings, weights: mergeWeights(file, settings.weights) };
        return;
      }
      case "veto": {
        const file = check(vetoSchema, given);
        if (file === null) return;
        const named = Object.keys(file).map((name) => [name, [name]] as const);
        if (misplaced(checkNames(named, this.#known), given)) return;
        this.settings = { ...settings, veto: mergeVeto(file, settings.veto) };
        return;
      }
      case "graph": {
        const template = this.#graph(kind.phase, given);
        if (template === null) return;
        this.settings = { ...settings, graphs: { ...settings.graphs, [kind.phase]: template } };
        return;
      }
    }
  }

  #graph(phase: GraphPhase, given: Given): GraphTemplate | null {
    const earlier = this.#phases.get(phase);
    if (earlier !== undefined) {
      const message = `${earlier} is for the same phase`;
      given.tell([problemAt({ source: given.source, range: undefined, message, hint: "Keep one of the two." })]);
      return null;
    }
    this.#phases.set(phase, given.path);
    const file = check(graphSchema, given);
    if (file === null || misplaced(checkGraphFile(file, this.#known), given)) return null;
    return templateOf(file);
  }
}

interface Given {
  readonly source: ConfigSource;
  readonly value: unknown;
  readonly path: string;
  readonly tell: (problems: readonly ConfigProblem[]) => void;
}

interface Schema<T> {
  safeParse(
    value: unknown,
  ):
    | { readonly success: true; readonly data: T }
    | { readonly success: false; readonly error: { readonly issues: readonly SchemaIssue[] } };
}

function check<T>(schema: Schema<T>, { value, source, tell }: Given): T | null {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  tell(result.error.issues.flatMap((issue) => explainIssue(issue, source, schema)));
  return null;
}

function misplaced(found: readonly Misplaced[], { source, tell }: Given): boolean {
  tell(
    found.map(({ path, message, hint }) =>
      problemAt({
        source,
        range: nodeAt(source, path)?.range ?? undefined,
        message,
        ...(hint === undefined ? {} : { hint }),
      }),
    ),
  );
  return found.length > 0;
}

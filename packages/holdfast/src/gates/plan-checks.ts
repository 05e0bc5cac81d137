/** How a file is parsed: many in one Node process, many in one Python process, or piped into a tool one by one. */
export type Grammar = NodeGrammar | PythonGrammar | PipeGrammar;
export type NodeGrammar =
  | "json"
  | "json with comments"
  | "yaml"
  | "script"
  | "module"
  | "script or module"
  | "typescript";
export type PythonGrammar = "python" | "toml" | "xml";
export type PipeGrammar = "shell" | "ruby" | "php" | "go";

export type PlannedCheck =
  | { readonly kind: "parse"; readonly grammar: Grammar }
  | { readonly kind: "skip"; readonly why: string };

/** By the file's name alone. */
export function planCheck(path: string): PlannedCheck {
  const name = (path.split("/").at(-1) ?? "").toLowerCase();
  const ending = /[^/]\.([^.]+)$/.exec(name)?.[1];
  if (ending === undefined) return { kind: "skip", why: "its name has no ending that tells its language" };
  if (ending === "json" && allowsComments(path.toLowerCase(), name))
    return { kind: "parse", grammar: "json with comments" };
  const grammar = GRAMMAR_OF.get(ending);
  if (grammar !== undefined) return { kind: "parse", grammar };
  return { kind: "skip", why: UNPARSED.get(ending) ?? `there is no parser here for .${ending} files` };
}

const GRAMMAR_OF: ReadonlyMap<string, Grammar> = new Map<string, Grammar>([
  ["json", "json"],
  ["jsonc", "json with comments"],
  ["yaml", "yaml"],
  ["yml", "yaml"],
  ["js", "script or module"],
  ["mjs", "module"],
  ["cjs", "script"],
  ["ts", "typescript"],
  ["mts", "typescript"],
  ["cts", "typescript"],
  ["py", "python"],
  ["pyi", "python"],
  ["toml", "toml"],
  ["xml", "xml"],
  ["sh", "shell"],
  ["bash", "shell"],
  ["rb", "ruby"],
  ["php", "php"],
  ["go", "go"],
]);

const JSX = "Node does not parse JSX";
const UNPARSED: ReadonlyMap<string, string> = new Map([
  ["jsx", JSX],
  ["tsx", JSX],
]);

/** Files that their own tools read as JSON with comments, whatever they are called. */
function allowsComments(path: string, name: string): boolean {
  return (
    /^(?:ts|js)config(?:\..+)?\.json$/.test(name) ||
    [
      "devcontainer.json",
      ".eslintrc.json",
      ".swcrc.json",
      "api-extractor.json",
      "language-configuration.json",
    ].includes(name) ||
    /(?:^|\/)\.(?:vscode|devcontainer)\//.test(path)
  );
}

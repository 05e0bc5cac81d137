import { asRecord, asText } from "../../../core/record.ts";

export interface GuessedGate {
  readonly command: string;
  /** What tells it. */
  readonly why: string;
}

/** How this project is tested, told from its files; null: nothing says. `read` gives "" for a file that is not there. */
export function guessGate(read: (name: string) => string): GuessedGate | null {
  return ofPackage(read) ?? ofMakefile(read) ?? ofPython(read) ?? ofOthers(read);
}

function ofPackage(read: (name: string) => string): GuessedGate | null {
  const script = asText(asRecord(parse(read("package.json"))["scripts"])["test"]);
  // What `npm init` writes, and what fails whatever one does.
  if (script === "" || script.includes("no test specified")) return null;
  const [, runner = "npm"] = LOCKS.find(([file]) => read(file) !== "") ?? [];
  return { command: `${runner} test`, why: "package.json has a test script" };
}

const LOCKS: readonly (readonly [string, string])[] = [
  ["pnpm-lock.yaml", "pnpm"],
  ["yarn.lock", "yarn"],
  ["bun.lock", "bun run"],
];

function ofMakefile(read: (name: string) => string): GuessedGate | null {
  const targets = ["test", "check"].filter((name) => new RegExp(`^${name}\\s*:(?!=)`, "m").test(read("Makefile")));
  const [target] = targets;
  return target === undefined ? null : { command: `make ${target}`, why: `the Makefile has a target ${target}` };
}

function ofPython(read: (name: string) => string): GuessedGate | null {
  const isTested = /\bpytest\b/.test(read("pyproject.toml")) || read("pytest.ini") !== "";
  if (!isTested) return read("tox.ini") === "" ? null : { command: "tox", why: "there is a tox.ini" };
  const command = read("uv.lock") === "" ? "python3 -m pytest -q" : "uv run pytest -q";
  return { command, why: "pytest is set up here" };
}

function ofOthers(read: (name: string) => string): GuessedGate | null {
  if (read("Cargo.toml") !== "") return { command: "cargo test", why: "there is a Cargo.toml" };
  return read("go.mod") === "" ? null : { command: "go test ./...", why: "there is a go.mod" };
}

function parse(text: string): Readonly<Record<string, unknown>> {
  try {
    return asRecord(JSON.parse(text));
  } catch {
    return {};
  }
}

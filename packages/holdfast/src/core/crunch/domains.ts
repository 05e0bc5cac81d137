import { DOMAINS } from "./labels.ts";
import type { Domain } from "./labels.ts";

/** Which domains a text is about, by its words; in the order of DOMAINS. A label says it better, and is asked first. */
export function domainsInText(text: string): readonly Domain[] {
  return DOMAINS.filter((domain) => countWords(text, DOMAIN_WORDS[domain]) > 0);
}

/** How many of these words the text has, each counted once. Words are whole: "go" is not in "good". */
export function countWords(text: string, words: readonly string[]): number {
  const lower = text.slice(0, MAX_TEXT).toLowerCase();
  return new Set(words.map((word) => word.toLowerCase()).filter((word) => hasWord(lower, word))).size;
}

/** An issue may quote a whole log; the words that matter stand before it. */
const MAX_TEXT = 100_000;

/** Words that mean little else: "go" and "test" are in every English text and call nobody. */
const DOMAIN_WORDS: Readonly<Record<Domain, readonly string[]>> = {
  security: [
    "security",
    "vulnerability",
    "cve",
    "xss",
    "csrf",
    "injection",
    "authentication",
    "oauth",
    "jwt",
    "secret",
  ],
  infra: ["infrastructure", "docker", "dockerfile", "kubernetes", "terraform", "helm", "deployment", "ci/cd"],
  performance: ["performance", "latency", "throughput", "slow", "memory leak", "profiling"],
  api: ["api", "endpoint", "rest", "graphql", "grpc", "openapi"],
  database: ["database", "sql", "postgres", "postgresql", "mysql", "sqlite", "migration", "schema migration"],
  frontend: ["frontend", "react", "css", "browser", "component", ".tsx", ".jsx"],
  python: ["python", "pytest", "django", "flask", "fastapi", ".py"],
  cpp: ["c++", "cpp", "cmake", ".cpp", ".hpp"],
  go: ["golang", "goroutine", "go.mod", ".go"],
};

function hasWord(text: string, word: string): boolean {
  if (word === "") return false;
  for (let at = text.indexOf(word); at !== -1; at = text.indexOf(word, at + 1)) {
    const starts = !isWordCharacter(word[0]) || !isWordCharacter(text[at - 1]);
    const ends = !isWordCharacter(word.at(-1)) || !isWordCharacter(text[at + word.length]);
    if (starts && ends) return true;
  }
  return false;
}

function isWordCharacter(character: string | undefined): boolean {
  return character !== undefined && /[a-z0-9_]/.test(character);
}
